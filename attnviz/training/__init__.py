"""How the shipped files in assets/ were made. The app never imports it."""
