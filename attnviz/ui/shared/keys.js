// Enter applies what is typed in the box of the text, as its button does; Shift+Enter begins another line.
if (!window.attnvizKeys) {
  window.attnvizKeys = true;
  document.addEventListener("keydown", (event) => {
    const box = event.target;
    if (event.key !== "Enter" || event.shiftKey || event.ctrlKey || event.metaKey || event.isComposing) return;
    if (!box.matches(".st-key-box textarea")) return;
    event.preventDefault();
    event.stopPropagation();
    box.blur();
    document.querySelector(".st-key-analyze button")?.click();
    begin(box);
  }, true);
  const begin = (box) => requestAnimationFrame(() => { box.scrollTop = 0; });  // of a long text what is seen is its beginning
  document.addEventListener("focusout", ({target}) => { if (target.matches(".st-key-box textarea")) begin(target); });
}

// Arrow keys walk through a picture: its cells, thumbnails, dots or lines. The pointer's events do what the pointer does,
// so the readout is the same; it is also spoken. Enter clicks, Escape (which the pictures know) clears.
if (!window.attnvizWalk) {
  window.attnvizWalk = true;
  const says = window.attnvizSays;
  const PICTURES = '[class*="st-key-picture"]';
  const MARKS = "svg .role-mark > *";
  const WAYS = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1]};
  const spoken = document.createElement("div");
  spoken.className = "unseen";
  spoken.setAttribute("aria-live", "polite");

  const places = (picture) => {  // where the pointer finds something; an image of a map has many cells
    const found = [...picture.querySelectorAll(MARKS)].filter((one) => one.__data__?.cursor);
    const plain = found.some((one) => one.closest(".mark-rect"));
    return found.filter((one) => !(plain && one.closest(".mark-symbol"))).map((one) => {
      const {left, top, width, height} = one.getBoundingClientRect(), {rows = 1, columns = 1} = one.__data__.datum || {};
      return {one, left, top, wide: width / columns, high: height / rows, rows, columns};
    });
  };
  const center = (place, row, column) => [place.left + (column + .5) * place.wide, place.top + (row + .5) * place.high];
  const clamp = (value, most) => Math.max(0, Math.min(most - 1, Math.floor(value)));
  const nearest = (place, x, y) => {  // the cell of a place that is nearest to a point
    const row = clamp((y - place.top) / place.high, place.rows), column = clamp((x - place.left) / place.wide, place.columns);
    return {one: place.one, place, row, column, at: center(place, row, column)};
  };
  const best = (all, cost) => all.map((one) => [cost(one.at), one]).filter(([much]) => much < Infinity)
    .sort((a, b) => a[0] - b[0]).map(([, one]) => one)[0];

  const step = (all, [x, y], [right, down]) => {
    const here = best(all.map((place) => nearest(place, x, y)), ([a, b]) => Math.hypot(a - x, b - y));
    if (!here) return here;
    const row = here.row + down, column = here.column + right, {place} = here;
    if (row >= 0 && row < place.rows && column >= 0 && column < place.columns) {
      return {...here, at: center(place, row, column)};
    }
    const along = ([a, b]) => (a - here.at[0]) * right + (b - here.at[1]) * down;
    const aside = ([a, b]) => Math.abs((a - here.at[0]) * down) + Math.abs((b - here.at[1]) * right);
    const others = all.filter((other) => other.one !== place.one).map((other) => nearest(other, ...here.at));
    return best(others, (at) => along(at) > 2 ? along(at) + 4 * aside(at) : Infinity) || here;
  };
  const send = ({one, at: [clientX, clientY]}, ...kinds) => kinds.forEach((kind) => one.dispatchEvent(
    new PointerEvent(kind, {bubbles: true, cancelable: true, view: window, clientX, clientY})));
  const leave = (one) => one && send({one, at: [0, 0]}, "pointerout", "mouseout");  // Vega's tooltip hears the second alone
  const readout = (picture, {one}) => {
    const known = one.__data__.tooltip;
    if (known && typeof known === "object") return Object.entries(known).map((pair) => pair.join(" ")).join(", ");
    return [...picture.querySelectorAll('[class*="readout"] text')].map((text) => text.textContent.trim()).filter(Boolean).join(", ");
  };
  const inside = (picture, [x, y]) => {  // scrolled there, if need be; how far
    const {left, right} = picture.getBoundingClientRect(), main = document.querySelector('[data-testid="stMain"]');
    if (x < left + 8 || x > right - 8) picture.scrollLeft += x - (left + right) / 2;
    if (main && (y < 160 || y > innerHeight - 24)) main.scrollTop += y - innerHeight / 2;
  };
  const origin = (picture) => picture.querySelector("svg").getBoundingClientRect();

  const walk = (picture, way) => {
    const {left, top} = origin(picture), all = places(picture), from = picture.walked;
    if (!all.length) return;
    const first = () => nearest(all[0], all[0].left, all[0].top);
    let to = from ? step(all, [from[0] + left, from[1] + top], way) : first();
    if (from && picture.pointed?.isConnected) leave(picture.pointed);
    inside(picture, to.at);
    const now = origin(picture);
    picture.walked = [to.at[0] - left, to.at[1] - top];
    to = {...to, at: [picture.walked[0] + now.left, picture.walked[1] + now.top]};
    picture.pointed = to.one;
    send(to, "pointerover", "pointermove");
    const speak = (again) => {
      spoken.textContent = readout(picture, to);
      if (again && spoken.textContent.endsWith("…")) setTimeout(speak, 200, again - 1);  // numbers are on their way
    };
    requestAnimationFrame(() => requestAnimationFrame(() => speak(20)));
  };
  const press = (picture) => {
    const {left, top} = origin(picture), [x, y] = picture.walked;
    const here = best(places(picture).map((place) => nearest(place, x + left, y + top)), ([a, b]) => Math.hypot(a - x - left, b - y - top));
    if (here) send(here, "pointerdown", "pointerup", "click");
  };
  const zoom = (picture, key) => {  // as the wheel with Ctrl does, at the cell that was walked to
    const {left, top} = origin(picture), [first] = places(picture);
    const [clientX, clientY] = picture.walked ? [picture.walked[0] + left, picture.walked[1] + top] : [first?.left, first?.top];
    const wheel = {deltaY: key === "+" ? -100 : 100, ctrlKey: true, bubbles: true, cancelable: true, view: window, clientX, clientY};
    first?.one.dispatchEvent(new WheelEvent("wheel", wheel));
  };
  document.addEventListener("keydown", (event) => {
    const picture = event.target;
    if (!picture.matches?.(PICTURES) || event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key in WAYS) walk(picture, WAYS[event.key]);
    else if (event.key === "Enter" && picture.walked) press(picture);
    else if ("+-".includes(event.key)) zoom(picture, event.key);
    else return;
    event.preventDefault();
  });
  const grid = (picture) => {  // where the cells of a map are, and how many
    const all = places(picture).filter(({left, top}, i, [first]) => left >= first.left && top >= first.top);  // labels aside
    const rows = new Set(all.map(({top}) => Math.round(top))).size * (all[0]?.rows || 1);
    const columns = new Set(all.map(({left}) => Math.round(left))).size * (all[0]?.columns || 1);
    const left = Math.min(...all.map((one) => one.left)), top = Math.min(...all.map((one) => one.top));
    return {left, top, rows, columns, wide: all[0]?.wide, high: all[0]?.high};
  };
  const twins = [0, 1].map(() => Object.assign(document.createElement("div"), {className: "twin"}));
  document.addEventListener("pointermove", ({target, clientX, clientY}) => {  // of two maps side by side: row and column in the other
    const picture = target.closest?.(`.st-key-maps ${PICTURES}`);
    if (!picture) return void (twins[0].isConnected && twins.forEach((band) => band.remove()));
    const other = [...picture.closest(".st-key-maps").querySelectorAll(PICTURES)].find((one) => one !== picture);
    const here = grid(picture), there = other && grid(other);
    const row = Math.floor((clientY - here.top) / here.high), column = Math.floor((clientX - here.left) / here.wide);
    const isIn = row >= 0 && row < here.rows && column >= 0 && column < here.columns;
    if (!isIn || there?.rows !== here.rows || there.columns !== here.columns) return twins.forEach((band) => band.remove());
    const {left, top} = other.getBoundingClientRect(), x = there.left - left + other.scrollLeft, y = there.top - top;
    const set = (band, ...sizes) => ["left", "top", "width", "height"].forEach((side, at) => { band.style[side] = `${sizes[at]}px`; });
    set(twins[0], x, y + row * there.high, there.columns * there.wide, there.high);
    set(twins[1], x + column * there.wide, y, there.wide, there.rows * there.high);
    other.append(...twins);
  });
  let pressed = null;  // where a picture was clicked: what the pointer says of the cell lets go, as the page says it
  const pressAt = (place) => document.documentElement.toggleAttribute("data-pressed", !!(pressed = place));
  document.addEventListener("click", ({target, clientX, clientY}) => pressAt(target.closest?.(PICTURES) ? [clientX, clientY] : null), true);
  document.addEventListener("pointermove", ({clientX, clientY}) => {
    if (pressed && Math.hypot(clientX - pressed[0], clientY - pressed[1]) > 12) pressAt(null);
  });
  document.addEventListener("mouseover", ({target: box}) => {  // where the pointer rests: what is cut, and what an eye does
    if (box.matches?.("input[role=combobox]")) box.title = box.scrollWidth > box.clientWidth ? box.value : "";
    const eye = box.closest?.(".st-key-heads_off-eyes button");
    const isOn = "selected" in (eye?.dataset ?? {});
    if (eye) eye.title = says(isOn ? "switch off" : "switch on", {head: eye.textContent.trim().toLowerCase()});
  });
  document.addEventListener("focusout", ({target}) => {
    if (target.matches?.(PICTURES) && target.pointed?.isConnected) leave(target.pointed);
  });
  document.addEventListener("pointerleave", ({target}) => {  // a mark that was redrawn under the pointer hears no pointerout
    if (target.matches?.(PICTURES)) leave([...target.querySelectorAll(MARKS)].find((one) => one.__data__?.cursor));
  }, true);

  const reveal = (picture) => {  // the cell of the link is scrolled into sight, once: the way back is the reader's
    const chosen = picture.hasAttribute("data-wide") && new URLSearchParams(location.search).has("cell");
    const cell = chosen && picture.querySelector('svg [stroke-width="2.5"]');
    const key = cell && cell.getAttribute("transform") + cell.getAttribute("d");
    if (!key || picture.revealed === key) return;
    const hidden = () => cell.getBoundingClientRect().right + 16 - picture.getBoundingClientRect().right;
    if (hidden() > 0) picture.scrollLeft += hidden();
    if (hidden() < 17) picture.revealed = key;  // else it is still being laid out
  };
  const sizes = new ResizeObserver((changes) => {  // once it is laid out: to ask sooner would cost a tenth of each click
    new Set(changes.map(({target}) => target.closest(PICTURES))).forEach((picture) => {
      if (!picture) return;
      picture.toggleAttribute("data-wide", picture.scrollWidth > picture.clientWidth + 2);
      reveal(picture);
      name(picture);
    });
  });
  const name = (picture) => {  // each picture is one stop of Tab
    if (picture.getAttribute("role") === "application") return;
    const walks = [...picture.querySelectorAll(MARKS)].some((one) => one.__data__?.cursor);
    if (!walks && !picture.hasAttribute("data-wide")) return;
    picture.tabIndex = 0;
    picture.setAttribute("role", walks ? "application" : "group");
    picture.setAttribute("aria-label", says(walks ? "walks" : "picture"));
  };
  const charts = document.getElementsByClassName("stVegaLiteChart");  // known to the browser: no search of the page
  const phrases = document.getElementsByClassName("st-key-phrase");
  let phrase;
  const typed = () => {  // a menu that opened to look for something is typed in at once
    const box = phrases[0]?.querySelector("input");
    if (phrase !== box) (phrase = box)?.focus();
  };
  const markUnsent = ({target, type}) => {  // a box in which something is typed that is not applied yet: for the style sheet
    target.closest?.(".st-key-box, .st-key-given")?.toggleAttribute("data-unsent", type === "input");
  };
  for (const kind of ["input", "focusout"]) document.addEventListener(kind, markUnsent);
  const models = document.getElementsByClassName("st-key-model"), lines = document.getElementsByClassName("model-line");
  const explain = () => {  // in the open list of models: what each is
    if (!models[0]?.querySelector('[aria-expanded="true"]')) return;
    const known = Object.fromEntries([...lines].map(({dataset}) => [dataset.name, dataset.line]));
    document.querySelectorAll('[role=listbox][aria-label="Model"] [role=option]').forEach((one) => {
      one.dataset.line = known[one.textContent] ?? "";
      one.closest("[data-testid]").dataset.lines = "";
    });
  };
  const firstRows = document.getElementsByClassName("st-key-row-one");
  let observed;
  const tall = new ResizeObserver(([{contentRect}]) => {  // the second row stays under the first
    document.documentElement.style.setProperty("--row-one", `${contentRect.height}px`);
  });
  const ready = () => {
    if (firstRows[0] && observed !== firstRows[0]) tall.observe(observed = firstRows[0]);
    document.body.append(...(spoken.isConnected ? [] : [spoken]));
    document.querySelectorAll("section[role=presentation][aria-label]").forEach((place) => place.setAttribute("role", "group"));
    document.querySelectorAll('.stCode pre:has(code[style*="white-space: pre;"])').forEach((code) => { code.tabIndex = 0; });  // it scrolls
    [...charts].forEach((chart) => {
      const picture = chart.closest(PICTURES), painted = picture && chart.querySelector(".marks")?.parentElement;
      if (!painted) return;
      if (picture.painted !== painted) {
        sizes.observe(picture);
        sizes.observe(painted);
        picture.painted = painted;
      }
      name(picture);
      reveal(picture);
    });
  };
  let late;
  const busy = () => {  // what takes longer than 300 ms is spoken; the style sheet writes it over the old picture
    const stale = [...charts].some((chart) => chart.closest('[data-stale="true"]')), text = says("computing");
    if (stale) late ??= setTimeout(() => { spoken.textContent = text; }, 300);
    else {
      late = clearTimeout(late);
      if (spoken.textContent === text) spoken.textContent = "";
    }
  };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => setTimeout(() => {  // charts have their colors
    window.dispatchEvent(new PopStateEvent("popstate"));  // from the server: the link is opened once more
  }, 100));
  const phone = matchMedia("(max-width: 640px)");
  const folds = document.getElementsByClassName("fold");
  const unfold = () => {  // on a phone the line "Settings" shows the model, too; a page without that line shows it always
    const isOpen = phone.matches && (folds[0]?.offsetParent ? folds[0].open : true);
    document.documentElement.toggleAttribute("data-controls", isOpen);
  };
  document.addEventListener("toggle", unfold, true);
  let waits = false;
  new MutationObserver(() => {
    if (waits) return;
    waits = true;
    requestAnimationFrame(() => { waits = false; ready(); unfold(); busy(); typed(); explain(); });
  }).observe(document.body, {childList: true, subtree: true, characterData: true, attributes: true, attributeFilter: ["data-stale"]});
  ready();
}
