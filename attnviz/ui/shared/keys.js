// Enter applies what is typed in the box of the text, as Ctrl+Enter does; Shift+Enter begins another line.
if (!window.attnvizKeys) {
  window.attnvizKeys = true;
  document.addEventListener("keydown", (event) => {
    const box = event.target;
    if (event.key !== "Enter" || event.shiftKey || event.ctrlKey || event.metaKey || event.isComposing) return;
    if (!box.matches(".st-key-box textarea")) return;
    event.preventDefault();
    event.stopPropagation();
    const keys = {key: "Enter", code: "Enter", keyCode: 13, ctrlKey: true, bubbles: true, cancelable: true};
    box.dispatchEvent(new KeyboardEvent("keydown", keys));
  }, true);
}
