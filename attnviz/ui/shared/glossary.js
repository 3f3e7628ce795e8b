// The terms on the page, each with one picture: beside a word when the pointer rests on it, and all of them, with the
// shortcuts of the keyboard, behind "?".
if (!window.attnvizGlossary) {
  window.attnvizGlossary = true;
  const {terms: TERMS, names: NAMES, shortcuts: SHORTCUTS, touch: TOUCH} = window.attnvizGlossaryWords, says = window.attnvizSays;

  const drawn = (tag, of, text = "") => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(of)) element.setAttribute(name, value);
    element.textContent = text;
    return element;
  };
  const written = (x, y, text) => drawn("text", {x, y}, text);
  const grid = (strength, {rows = 5, columns = 5, size = 16, x = 0, y = 0} = {}) =>
    Array.from({length: rows * columns}, (_, i) => {
      const [row, column] = [Math.floor(i / columns), i % columns], filled = strength(row, column);
      const place = {x: x + column * size, y: y + row * size, width: size - 1, height: size - 1};
      return drawn("rect", filled < 0 ? {...place, class: "blocked"} : {...place, "fill-opacity": filled});
    });
  const look = (row, column) => [.1, .8, .2, .4, .6][(row * 3 + column * 2) % 5];
  const past = (row, column) => column > row ? -1 : look(row, column);
  const many = (y, on = -1) => [0, 1, 2, 3].flatMap((i) =>
    grid((row, column) => (on < 0 || on === i ? 1 : .3) * look(row + i, column), {rows: 4, columns: 4, size: 5, x: i * 24, y}));

  const PICTURES = {
    "query": grid((row) => row === 2 ? .8 : .12),
    "key": grid((_, column) => column === 2 ? .8 : .12),
    "value": [
      ...grid((row) => [.1, .7, .2][row], {rows: 3, columns: 1, y: 16}), written(22, 44, "×"),
      ...grid((row, column) => [.3, .6, .2, .5, .4][(row + column * 2) % 5], {rows: 3, columns: 3, x: 36, y: 16})],
    "score": [written(14, 32, "2.1"), written(56, 32, "0.3"), written(6, 62, "−1.4"), written(56, 62, "0.8")],
    "weight": grid((row, column) => row === 2 ? [.05, .9, .1, .2, .05][column] : .08),
    "head": many(30, 1),
    "layer": [...many(14), ...many(46)],
    "encoder": grid(look),
    "decoder": grid(past),
    "end of text": [...grid(() => .2, {rows: 1, columns: 4, y: 30}), drawn("rect", {x: 64, y: 30, width: 15, height: 15})],
    "cross": grid((row, column) => row === column ? .8 : .12, {rows: 3, columns: 5}),
    "mask": grid((row, column) => column > row ? -1 : .15),
    "first token": grid((_, column) => column === 0 ? .8 : .12),
    "previous token": grid((row, column) => column === row - 1 ? .8 : .12),
    "itself": grid((row, column) => column === row ? .8 : .12),
    "confidence": grid((row, column) => column === (row * 2) % 5 ? .9 : .05),
    "entropy": [
      ...grid((_, column) => column === 2 ? .9 : .05, {rows: 1, y: 12}), ...grid(() => .2, {rows: 1, y: 50}),
      written(82, 26, "0"), written(80, 64, "1.6")],
    "effective number of keys": [
      ...grid((_, column) => column === 1 || column === 2 ? .5 : .05, {rows: 1, y: 30}), written(82, 44, "2")],
    "share of output": [
      drawn("rect", {x: 0, y: 30, width: 60, height: 18}), drawn("rect", {x: 62, y: 30, width: 30, height: 18, "fill-opacity": .25})],
    "nats": [written(4, 46, "e¹ ↔ 1 nat")],
    "divergence": [
      ...grid((_, column) => column === 1 ? .9 : .05, {rows: 1, y: 12}),
      ...grid((_, column) => column === 3 ? .9 : .05, {rows: 1, y: 50}), written(80, 46, "0.69")],
    "rollout": [
      ...grid(look, {rows: 3, columns: 3, size: 12, y: 22}), written(39, 46, "×"),
      ...grid(past, {rows: 3, columns: 3, size: 12, x: 54, y: 22})],
    "scaled dot product attention": grid((row, column) => column > row ? -1 : .15),
    "softcap": [
      drawn("path", {d: "M0,72 C40,68 44,14 92,12", fill: "none", stroke: "currentColor", "stroke-width": 2}),
      drawn("path", {d: "M0,8 H92", fill: "none", stroke: "currentColor", "stroke-dasharray": "4 3", "stroke-opacity": .5})],
    "temperature": [
      ...grid((_, column) => [.05, .9, .1, .05, .05][column], {rows: 1, y: 12}),
      ...grid((_, column) => [.2, .4, .25, .2, .2][column], {rows: 1, y: 50})],
  };
  const KNOWN = [...Object.keys(TERMS), ...Object.keys(NAMES)].sort((one, other) => other.length - one.length);
  const termOf = (text) => {  // the term that a text begins with, numbers and signs left aside; else its unit
    const words = text.trim().toLowerCase().replace(/^[^a-z]+/, "");
    const name = KNOWN.find((one) => words.startsWith(one) && !/[a-z]/.test(words[one.length] || ""));
    return NAMES[name] || name || (words.endsWith("(nats)") ? "nats" : undefined);
  };

  const app = () => document.querySelector(".stApp");  // which has the colors of light or dark
  const make = (tag, text, of = {}) => Object.assign(document.createElement(tag), {textContent: text}, of);
  const card = (name) => {
    const card = make("div", "", {className: "term"}), words = make("p", "");
    const picture = drawn("svg", {viewBox: "-2 -2 112 84", width: 112, height: 84, "aria-hidden": true});
    picture.append(...PICTURES[name].map((shape) => shape.cloneNode(true)));
    words.append(make("b", `${name[0].toUpperCase()}${name.slice(1)}:`), ` ${TERMS[name]}`);
    card.append(picture, words);
    return card;
  };

  const all = () => {
    const dialog = make("dialog", "", {className: "glossary"}), close = make("button", says("close"));
    const list = (rows) => {
      const made = make("table", "", {className: "facts"});
      for (const [what, does] of rows) made.insertRow().append(make("th", what, {scope: "row"}), make("td", does));
      return made;
    };
    const [does, keys] = matchMedia("(max-width: 640px)").matches ? [says("touch"), TOUCH] : [says("keyboard"), SHORTCUTS];
    const words = make("div", "", {className: "terms"}), guide = document.querySelector(".st-key-guide-again button");
    const again = make("a", guide ? says("guide") : says("first screen"), {href: "./"});
    again.addEventListener("click", (event) => {
      if (!guide) return;
      event.preventDefault();
      dialog.close();
      guide.click();
    });
    words.append(...Object.keys(TERMS).map(card));
    close.addEventListener("click", () => dialog.close());
    dialog.addEventListener("close", () => dialog.remove());
    dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
    dialog.setAttribute("aria-label", says("glossary"));
    dialog.append(close, make("h2", says("glossary")), words, make("h2", does), list(keys), again);
    app().append(dialog);
    dialog.showModal();
  };

  let shown, wait;
  const hide = () => { clearTimeout(wait); shown?.remove(); shown = undefined; };
  const NAMED = "[data-testid=stWidgetLabel] p, [data-testid=stCaptionContainer] p, [data-testid=stPopover] button, :is(.st-key-tab, .st-key-panel, .st-key-dialect) button:not([aria-checked=true]), th, summary, abbr";
  const inside = (box, x, y) => box.left <= x && x <= box.right && box.top <= y && y <= box.bottom;
  const wordAt = (x, y) => {
    const element = document.elementFromPoint(x, y), svg = element?.closest("svg.marks");
    // Words of a picture take no pointer; those of the person's own text are set in a monospaced face, as its ends are.
    const isOurs = (text) => !text.matches("[font-family*=mono]") || /^\W*[es]os>$/.test(text.textContent);
    return svg ? [...svg.querySelectorAll("text")].filter(isOurs).find((text) => inside(text.getBoundingClientRect(), x, y))
      : element?.closest(NAMED);
  };
  const show = (element, name) => {
    const box = element.getBoundingClientRect();
    shown = card(name);
    shown.classList.add("beside-word");
    shown.setAttribute("role", "tooltip");
    app().append(shown);
    const top = box.bottom + 6 + shown.offsetHeight > innerHeight ? box.top - 6 - shown.offsetHeight : box.bottom + 6;
    shown.style.top = `${Math.max(4, top)}px`;
    shown.style.left = `${Math.max(4, Math.min(box.left, innerWidth - shown.offsetWidth - 12))}px`;
  };
  const rest = (x, y) => {
    const element = wordAt(x, y), name = element && termOf(element.textContent);
    if (name) element.removeAttribute("title");
    if (name) show(element, name);
  };
  document.addEventListener("mousemove", (event) => {
    hide();
    wait = setTimeout(rest, 500, event.clientX, event.clientY);
  });
  document.addEventListener("scroll", hide, true);
  document.addEventListener("click", (event) => {
    hide();
    if (event.target.closest?.("button.shortcuts")) all();
  });
  document.addEventListener("keydown", (event) => {
    const typing = event.target.matches?.("input, textarea, [contenteditable=true]");
    if (event.key === "Escape") hide();
    if (event.key === "?" && !typing && !event.ctrlKey && !document.querySelector("dialog.glossary[open]")) all();
  });
}
