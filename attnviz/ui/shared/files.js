// A file opens that is dropped anywhere on the page, or chosen by the button "Open file": it goes to one hidden box.
if (!window.attnvizFiles) {
  window.attnvizFiles = true;
  const box = () => document.querySelector(".st-key-open-files input[type=file]");
  const app = () => document.querySelector(".stApp");
  const over = (is) => app()?.toggleAttribute("data-file-over", is);
  const make = (tag, of) => Object.assign(document.createElement(tag), of);

  const open = (files) => {
    const most = document.querySelector("[data-most]").dataset.most, taken = new DataTransfer();
    let room = 4 * most;  // as uploads.py refuses more
    for (const file of files) {
      const size = file.size / 2 ** 20;
      if (size <= Math.min(most, room)) {
        taken.items.add(file);
        room -= size;
      } else app().append(make("p", {className: "note error over-page file-refused", role: "alert",
        textContent: window.attnvizSays(size > most ? "file too large" : "files too large",
          {name: file.name, size: Math.ceil(size), most, all: 4 * most})}));
    }
    if (!taken.files.length) return;
    box().files = taken.files;
    box().dispatchEvent(new Event("change", {bubbles: true}));
  };

  document.addEventListener("click", (event) => {
    document.querySelectorAll(".file-refused").forEach((one) => one.remove());
    if (!event.target.closest?.("button.open-file")) return;
    const chooser = make("input", {type: "file", multiple: true});
    chooser.addEventListener("change", () => open(chooser.files));
    chooser.click();
  });

  for (const kind of ["dragover", "drop"]) document.addEventListener(kind, (event) => {
    const another = event.target.closest?.("[data-testid=stFileUploaderDropzone]");  // for what a page checks or measures
    const {types, files} = event.dataTransfer ?? {};
    if (another || !types?.includes("Files") || !box()) return over(false);
    event.preventDefault();
    event.stopPropagation();
    over(kind === "dragover");
    if (kind === "drop") open(files);
  }, true);
  document.addEventListener("dragleave", (event) => event.relatedTarget || over(false));
}
