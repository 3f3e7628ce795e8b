"""Programs that produced the shipped files in assets/. The app never imports them."""
