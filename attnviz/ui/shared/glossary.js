// The terms on the page, each with one picture: beside a word when the pointer rests on it, and all of them, with the
// shortcuts of the keyboard, behind "?".
if (!window.attnvizGlossary) {
  window.attnvizGlossary = true;
  const SHORTCUTS = [
    ["Enter", "apply the text"], ["Shift Enter", "another line in the text"], ["Ctrl Z", "undo"],
    ["Ctrl Shift Z", "redo"], ["Tab, arrow keys", "walk over the cells of a map"], ["Enter on a cell", "select it"],
    ["Esc", "clear the selection, close a menu"], ["?", "this list"],
  ];

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

  const TERMS = {
    "query": ["A token that looks: one row of the map. Its weights sum to 1.", grid((row) => row === 2 ? .8 : .12)],
    "key": ["A token that is looked at: one column of the map.", grid((_, column) => column === 2 ? .8 : .12)],
    "value": ["What a key hands over: a vector. A head's output is the sum of the values, each times its weight.", [
      ...grid((row) => [.1, .7, .2][row], {rows: 3, columns: 1}), written(22, 28, "×"),
      ...grid((row, column) => [.3, .6, .2, .5, .4][(row + column * 2) % 5], {rows: 3, columns: 3, x: 36})]],
    "score": ["How well a query and a key agree: their dot product divided by √d_k. Any number.",
      [written(14, 32, "2.1"), written(56, 32, "0.3"), written(6, 62, "−1.4"), written(56, 62, "0.8")]],
    "weight": ["The share of attention that a query gives to a key, from 0 to 1: the softmax of its scores.",
      grid((row, column) => row === 2 ? [.05, .9, .1, .2, .05][column] : .08)],
    "head": ["One way of looking: a map of its own in a layer, learned apart from the others.", many(28, 1)],
    "layer": ["One round of attention. Each layer has several heads and reads what the layer before wrote.",
      [...many(12), ...many(44)]],
    "encoder": ["Reads a whole text at once: every token may look at every other one.", grid(look)],
    "decoder": ["Writes a text token by token: a token looks at itself and at those before it.", grid(past)],
    "cross": ["A decoder's tokens (rows) look at the encoder's tokens (columns): two texts in one map.",
      grid((row, column) => row === column ? .8 : .12, {rows: 3, columns: 5})],
    "mask": ["Which keys a query may look at. Blocked cells get weight 0.",
      grid((row, column) => column > row ? -1 : .15)],
  };
  const NAMES = {queries: "query", keys: "key", values: "value", scores: "score", weights: "weight", heads: "head",
    layers: "layer", masks: "mask"};

  const make = (tag, text, of = {}) => Object.assign(document.createElement(tag), {textContent: text}, of);
  const card = (name) => {
    const [says, shapes] = TERMS[name], card = make("div", "", {className: "term"}), words = make("p", "");
    const picture = drawn("svg", {viewBox: "-2 -2 98 84", width: 98, height: 84, "aria-hidden": true});
    picture.append(...shapes.map((shape) => shape.cloneNode(true)));
    words.append(make("b", name), ` ${says}`);
    card.append(picture, words);
    return card;
  };

  const all = () => {
    const dialog = make("dialog", "", {className: "glossary"}), close = make("button", "Close");
    const list = make("dl", "");
    for (const [keys, does] of SHORTCUTS) list.append(make("dt", keys), make("dd", does));
    close.addEventListener("click", () => dialog.close());
    dialog.addEventListener("close", () => dialog.remove());
    dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
    dialog.setAttribute("aria-label", "Keyboard and words");
    dialog.append(close, make("h2", "Words"), ...Object.keys(TERMS).map(card), make("h2", "Keyboard"), list);
    document.body.append(dialog);
    dialog.showModal();
  };

  let shown, wait;
  const hide = () => { clearTimeout(wait); shown?.remove(); shown = undefined; };
  const NAMED = "[data-testid=stWidgetLabel] p, [data-testid=stCaptionContainer] p, [data-testid=stPopover] button, th, summary";
  const inside = (box, x, y) => box.left <= x && x <= box.right && box.top <= y && y <= box.bottom;
  const wordAt = (x, y) => {
    const element = document.elementFromPoint(x, y), svg = element?.closest("svg.marks");
    // Words of a picture take no pointer; those of the person's own text are set in a monospaced face.
    return svg ? [...svg.querySelectorAll("text:not([font-family*=mono])")].find((text) => inside(text.getBoundingClientRect(), x, y))
      : element?.closest(NAMED);
  };
  const show = (element, name) => {
    const box = element.getBoundingClientRect();
    shown = card(name);
    shown.classList.add("beside-word");
    shown.setAttribute("role", "tooltip");
    document.body.append(shown);
    const top = box.bottom + 6 + shown.offsetHeight > innerHeight ? box.top - 6 - shown.offsetHeight : box.bottom + 6;
    shown.style.top = `${Math.max(4, top)}px`;
    shown.style.left = `${Math.max(4, Math.min(box.left, innerWidth - shown.offsetWidth - 12))}px`;
  };
  const rest = (x, y) => {
    const element = wordAt(x, y), word = element?.textContent.trim().toLowerCase().match(/^[a-z]+/)?.[0];
    const name = Object.hasOwn(TERMS, word) ? word : NAMES[word];
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
    if (event.key === "?" && !typing && !event.ctrlKey && !document.querySelector("dialog.glossary")) all();
  });
}
