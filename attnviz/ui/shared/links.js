// Copy the link to what is on the screen; undo and redo by Ctrl+Z and Ctrl+Shift+Z. Nothing of it asks the server but
// following a link, which goes the way of the browser's Back.
if (!window.attnvizLinks) {
  window.attnvizLinks = true;
  const says = window.attnvizSays;
  const make = (tag, text, of = {}) => Object.assign(document.createElement(tag), {textContent: text}, of);

  const follow = (link) => {
    history.pushState({}, "", link);
    window.dispatchEvent(new PopStateEvent("popstate"));
  };

  const where = () => [  // a link may open less than it shows here
    new URLSearchParams(location.search).get("model")?.startsWith("file:") && says("link without file"),
    /^(localhost|127\..*|\[::1])$/.test(location.hostname) && says("link here alone"),
  ].filter(Boolean).join(" ");

  const say = (text) => {
    const note = make("p", text, {className: "note notice over-page link-copied"});
    note.setAttribute("role", "status");
    document.querySelector(".stApp").append(note);
    setTimeout(() => note.remove(), 8000);
  };

  // How far one is in a lesson stays in this browser: the mark of it on the page says by its animation that it is there.
  const lessons = () => {
    try {
      const kept = JSON.parse(localStorage.getItem("attnviz.lessons"));
      return kept && typeof kept === "object" ? kept : {};
    } catch {
      return {};
    }
  };
  const parts = (link, name) => (link?.searchParams.get(name) || "").split("-").filter(Boolean);
  document.addEventListener("animationstart", ({animationName, target}) => {
    if (animationName !== "learned") return;
    const {lesson, done, link} = target.dataset, kept = lessons();
    let there = /^\/(?!\/)/.test(kept[lesson]) ? new URL(kept[lesson], location.href) : null;
    if (done) {  // what was done before stays done, whatever link one came by
      const now = new URL(`${location.pathname}?${link}`, location.href);
      for (const name of ["learned", "found"]) {
        const all = new Set([...parts(now, name), ...parts(there, name)]);
        if (all.size) now.searchParams.set(name, [...all].join("-"));
      }
      there = now;
      try {
        localStorage.setItem("attnviz.lessons", JSON.stringify({...kept, [lesson]: now.pathname + now.search}));
      } catch { /* this browser keeps nothing: the link holds it */ }
    }
    const many = parts(there, "learned").length;
    if (many <= done.split("-").filter(Boolean).length) return;
    const way = make("a", says("go on", {done: many}), {href: there.pathname + there.search});
    way.addEventListener("click", (event) => {
      event.preventDefault();
      follow(there.pathname + there.search);
    });
    target.replaceChildren(way);
  });

  document.addEventListener("click", async (event) => {
    document.querySelector(".link-copied")?.remove();
    const button = event.target.closest?.("button.copy-link");
    if (!button) return;
    const before = button.dataset.label ??= button.textContent;
    let more = "";
    try {
      await navigator.clipboard.writeText(location.href);
      button.textContent = says("link copied");
      more = where();
    } catch {
      button.textContent = says("copy address");
    }
    if (more || matchMedia("(max-width: 640px)").matches) say(`${button.textContent}. ${more}`);  // there the button is a sign
    setTimeout(() => { button.textContent = before; }, 2000);
  });

  // To another page one goes without what was chosen: the session knows it, and writes it into the address.
  const linkOf = ({target}) => target.closest?.(".st-key-pages a");
  const complete = (event) => {  // for another tab
    const link = linkOf(event);
    if (link) link.search = location.search;
  };
  let left = -Infinity;  // when a box was left, in which somebody may have typed
  document.addEventListener("focusout", ({target}) => { if (target.matches?.("input, textarea")) left = performance.now(); });
  document.addEventListener("pointerover", complete);
  document.addEventListener("focusin", complete);
  document.addEventListener("click", (event) => {
    const link = linkOf(event);
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    if (link.pathname === location.pathname) return;
    const typed = performance.now() - left < 300;  // a tap that ends typing: what was typed is sent first
    setTimeout(() => follow(link.pathname), typed ? 200 : 0);
  });

  document.addEventListener("click", ({target}) => {
    if (target.closest?.(".undo-card")) document.querySelector(".st-key-icon-undo button")?.click();
  });

  document.addEventListener("keydown", (event) => {
    const boxes = "input:not([type=radio], [type=checkbox], [type=range]), textarea, [contenteditable=true]";
    const idle = event.target.matches?.("[role=combobox][aria-expanded=false]");  // a list that is closed
    if (event.target.matches?.(boxes) && !idle || !(event.ctrlKey || event.metaKey) || event.altKey || event.key.toLowerCase() !== "z") return;
    const button = document.querySelector(`.st-key-icon-${event.shiftKey ? "redo" : "undo"} button`);
    if (button && !button.disabled) {
      event.preventDefault();
      button.click();
    }
  });
}
