// Keyboard control that Streamlit lacks. In a picture, arrow keys move over its cells, Enter clicks, and Escape (handled by
// the chart) clears the selection; digits choose a head. While the user types, only Enter acts, which applies the text.
if (!window.attnvizKeys) {
  window.attnvizKeys = true;
  const PICTURE = '[class*="st-key-picture"]';
  const WAYS = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1]};
  const spoken = Object.assign(document.createElement("div"), {className: "unseen", ariaLive: "polite"});

  // Clickable marks; one image may contain many cells.
  const places = (picture) => [...picture.querySelectorAll("svg .role-mark > *")].filter((mark) => mark.__data__?.cursor)
    .filter((mark, i, all) => !mark.closest(".mark-symbol") || !all.some((other) => other.closest(".mark-rect")))
    .map((mark) => {
      const {left, top, width, height} = mark.getBoundingClientRect(), {rows = 1, columns = 1} = mark.__data__.datum || {};
      return {mark, left, top, rows, columns, wide: width / columns, high: height / rows};
    });
  const within = (number, count) => Math.max(0, Math.min(count - 1, Math.floor(number)));
  const center = (place, row, column) => ({place, row, column, x: place.left + (column + .5) * place.wide, y: place.top + (row + .5) * place.high});
  const nearest = (place, {x, y}) =>
    center(place, within((y - place.top) / place.high, place.rows), within((x - place.left) / place.wide, place.columns));
  const best = (cells, cost) => cells.reduce((a, b) => (a && cost(a) <= cost(b) ? a : b), undefined);
  const at = (all, point) => best(all.map((place) => nearest(place, point)), ({x, y}) => Math.hypot(x - point.x, y - point.y));

  const step = (all, point, [right, down]) => {
    const here = at(all, point), row = here.row + down, column = here.column + right;
    if (row === within(row, here.place.rows) && column === within(column, here.place.columns)) return center(here.place, row, column);
    const along = ({x, y}) => (x - here.x) * right + (y - here.y) * down;
    const aside = ({x, y}) => Math.abs((x - here.x) * down) + Math.abs((y - here.y) * right);
    const others = all.filter(({mark}) => mark !== here.place.mark).map((place) => nearest(place, here));
    return best(others.filter((cell) => along(cell) > 2), (cell) => along(cell) + 4 * aside(cell)) || here;
  };
  const send = ({place, x, y}, ...kinds) => kinds.forEach((kind) => place.mark.dispatchEvent(
    new PointerEvent(kind, {bubbles: true, cancelable: true, view: window, clientX: x, clientY: y})));
  const point = (picture) => {  // position of the keyboard on the screen: where it walked to, the outlined cell, or the first mark
    const {left, top} = picture.querySelector("svg").getBoundingClientRect(), {x, y} = picture.walked || {};
    const box = (picture.querySelector('svg [stroke-width="2.5"]') || places(picture)[0].mark).getBoundingClientRect();
    return picture.walked ? {x: x + left, y: y + top} : {x: box.left + box.width / 2, y: box.top + box.height / 2};
  };
  const walk = (picture, way) => {
    const all = places(picture);
    if (!all.length) return;
    const cell = step(all, point(picture), way), {left, top} = picture.querySelector("svg").getBoundingClientRect();
    picture.walked = {x: cell.x - left, y: cell.y - top};
    send(cell, "pointerover", "pointermove", "mousemove", "mouseover");
    cell.place.mark.scrollIntoView?.({block: "nearest", inline: "nearest"});
    setTimeout(() => {
      const {tooltip} = cell.place.mark.__data__, notes = picture.querySelectorAll('[class*="readout"] text');
      const words = tooltip && typeof tooltip === "object" ? Object.entries(tooltip).map((pair) => pair.join(" ")) : [...notes].map((note) => note.textContent);
      spoken.textContent = words.filter((word) => word.trim()).join(", ");
    }, 100);
  };
  const click = (cell) => send(cell, "pointerdown", "pointerup", "click");
  const press = (button) => document.querySelector(`.st-key-${button} button`)?.click();

  document.addEventListener("keydown", (event) => {
    const {target, key, shiftKey} = event, picture = target.matches?.(PICTURE) && target, withCtrl = event.ctrlKey || event.metaKey;
    const thumbnails = document.querySelector(".st-key-every .st-key-picture-every");
    if (target.matches?.(".st-key-box textarea") && key === "Enter" && !shiftKey && !withCtrl && !event.isComposing) target.blur();
    else if (event.altKey || target.matches?.("input, textarea, [contenteditable=true]")) return;
    else if (withCtrl && key.toLowerCase() === "z") press(shiftKey ? "Redo" : "Undo");
    else if (withCtrl) return;
    else if (picture && key in WAYS) walk(picture, WAYS[key]);
    else if (picture && key === "Enter" && picture.walked) click(at(places(picture), point(picture)));
    else if (/^\d$/.test(key) && thumbnails && places(thumbnails)[key]) click(center(places(thumbnails)[key], 0, 0));
    else return;
    event.preventDefault();
    event.stopPropagation();
  }, true);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {  // Streamlit runs no page for new colors
    setTimeout(() => window.dispatchEvent(new PopStateEvent("popstate")), 100);  // after its own change of colors
  });
  document.addEventListener("click", ({target}) => {  // copies the answer as text
    if (target.closest?.(".st-key-copy button")) navigator.clipboard?.writeText(document.querySelector(".copied").textContent);
  });
  new MutationObserver(() => {
    document.querySelectorAll(`${PICTURE}:has(.marks):not([tabindex])`).forEach((picture) =>
      Object.assign(picture, {role: "application", tabIndex: 0, ariaLabel: "Picture: arrow keys walk over its cells, Enter selects"}));
    document.querySelectorAll("section[role=presentation][aria-label]").forEach((box) => { box.role = "group"; });
    if (!spoken.isConnected) document.body.append(spoken);
  }).observe(document.body, {childList: true, subtree: true});
}
