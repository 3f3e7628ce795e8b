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
  const readout = (picture, {one}) => {
    const known = one.__data__.tooltip;
    if (known && typeof known === "object") return Object.entries(known).map((pair) => pair.join(" ")).join(", ");
    return [...picture.querySelectorAll('[class*="readout"] text')].map((text) => text.textContent.trim()).filter(Boolean).join(", ");
  };
  const inside = (picture, [x, y]) => {  // scrolled there, if need be; how far
    const {left, right, top, bottom} = picture.getBoundingClientRect(), main = document.querySelector('[data-testid="stMain"]');
    if (x < left + 8 || x > right - 8) picture.scrollLeft += x - (left + right) / 2;
    if (y < top + 8 || y > bottom - 8) picture.scrollTop += y - (top + bottom) / 2;
    if (main && (y < 160 || y > innerHeight - 24)) main.scrollTop += y - innerHeight / 2;
  };
  const origin = (picture) => picture.querySelector("svg").getBoundingClientRect();

  const walk = (picture, way) => {
    const {left, top} = origin(picture), all = places(picture), from = picture.walked;
    if (!all.length) return;
    const first = () => nearest(all[0], all[0].left, all[0].top);
    let to = from ? step(all, [from[0] + left, from[1] + top], way) : first();
    if (from && picture.pointed?.isConnected) send({one: picture.pointed, at: [0, 0]}, "pointerout");
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
  const HELP = {  // what Streamlit's own help would say: it draws each button twice, and every click draws all anew
    ".st-key-icon-undo": says("undo"),
    ".st-key-icon-redo": says("redo"),
    "[class*=st-key-chip-]": says("undo change"),
    ".st-key-nearer": says("nearer"),
    ".st-key-welcome:has([data-hides]) .st-key-card-Hide-the-future": says("hides"),
  };
  document.addEventListener("mouseover", ({target: box}) => {  // where the pointer rests: what is cut, and what an eye does
    if (box.matches?.("input[role=combobox]")) box.title = box.scrollWidth > box.clientWidth ? box.value : "";
    for (const [key, text] of Object.entries(HELP)) if (box.closest?.(key)) box.closest(key).title = text;
    const eye = box.closest?.(".st-key-off-eyes button");
    const isOn = "selected" in (eye?.dataset ?? {});
    if (eye) eye.title = says(isOn ? "switch off" : "switch on", {head: eye.textContent.trim().toLowerCase()});
  });
  document.addEventListener("focusout", ({target}) => {
    if (target.matches?.(PICTURES) && target.pointed?.isConnected) send({one: target.pointed, at: [0, 0]}, "pointerout");
  });

  const reveal = (picture) => {  // the cell of the link is scrolled into sight, once: the way back is the reader's
    const chosen = picture.hasAttribute("data-wide") && new URLSearchParams(location.search).has("cell");
    const cell = chosen && picture.querySelector('svg [stroke-width="2.5"]');
    const key = cell && cell.getAttribute("transform") + cell.getAttribute("d");
    if (!key || picture.revealed === key) return;
    const frame = picture.getBoundingClientRect(), hidden = () => {
      const {right, bottom} = cell.getBoundingClientRect();
      return [right + 16 - frame.right, bottom + 16 - frame.bottom];
    };
    const [across, down] = hidden();
    if (across > 0) picture.scrollLeft += across;
    if (down > 0) picture.scrollTop += down + frame.height / 3;
    if (hidden().every((much) => much < 17)) picture.revealed = key;  // else it is still being laid out
  };
  const drawnAt = (one) => {  // in pixels from a map's corner, as if nothing were scrolled
    const {x, y, width, height} = one.getBBox(), {a, b, c, d, e, f} = one.transform.baseVal.consolidate()?.matrix ?? {a: 1, b: 0, c: 0, d: 1, e: 0, f: 0};
    const xs = [a * x + c * y + e, a * (x + width) + c * (y + height) + e], ys = [b * x + d * y + f, b * (x + width) + d * (y + height) + f];
    return {left: Math.min(...xs), right: Math.max(...xs), top: Math.min(...ys), bottom: Math.max(...ys), e, f};
  };
  const ABOVE = -20, NEAR = -12, HINT = 21, MAP = 40, MOST = 300;  // pixels: titles end above, columns' labels after; the hint; a map at least; marks looked at singly
  const stay = (picture) => {  // titles, labels and legend are read wherever a picture is scrolled to; cells end at the labels
    const svg = picture.querySelector("svg.marks"), title = svg?.querySelector('text[font-weight="600"]');
    if (!title) return;
    const base = title.parentNode.getCTM(), {left} = drawnAt(title);
    const groups = [...svg.querySelectorAll('[class*="mark-"]:not(.mark-group)')].filter((one) => Math.abs(one.getCTM().e - base.e) < 2);  // of several maps the first
    const bottom = (group) => {  // of the cells
      const map = group.closest(".mark-group:not(.role-axis)"), box = (map.querySelector(".cells") ?? map.querySelector("path.background")).getBBox();
      return box.y + box.height;
    };
    const parts = groups.filter((one) => one.childElementCount < MOST).flatMap((group) => {
      const high = bottom(group);
      return [...group.children].map((one) => ({one, high, ...drawnAt(one)}));
    });
    const isTitle = (part) => part.one.matches("text") && Math.abs(part.left - left) < 2 && part.bottom < ABOVE;
    const labels = parts.filter(({one}) => one.matches("text"));
    const {scrollLeft: by, scrollTop: down} = picture, alone = picture.matches(".st-key-picture-head, .st-key-picture-mask");
    const first = Math.min(...labels.filter(({one, right}) => right < 0 && one.getAttribute("text-anchor") === "end").map((one) => one.left));
    const highest = Math.min(...labels.filter(({bottom}) => bottom < 0 && bottom > NEAR).map((one) => one.top));
    const above = svg.getBoundingClientRect().top - picture.getBoundingClientRect().top + down + base.f;
    const over = by && Math.max(0, by - first + left), under = down && Math.max(0, down - highest - above + HINT);
    const clip = (e = 0, f = 0) => over || under ? `inset(${under - f}px 0 0 ${over - e}px) view-box` : "";
    for (const part of parts) {
      const {style} = part.one;
      const isRow = part.right < 1, isColumn = part.bottom < 1, isAside = isTitle(part) || (alone && part.top > part.high + 2);
      style.translate = isAside ? `${by}px` : isRow ? `${over}px` : isColumn ? `0 ${under}px` : "";
      if (!isAside && isRow !== isColumn) style.visibility = (isRow ? under && part.top < under - 4 : over && part.left < over - 4) ? "hidden" : "";
      const ends = alone || (part.one.matches("image") && part.bottom - part.top > MAP);
      if (ends && !isAside && !isRow && !isColumn) style.clipPath = clip(part.e, part.f);
    }
    groups.filter((one) => one.childElementCount >= MOST).forEach((one) => { one.style.clipPath = clip(); });
  };
  document.addEventListener("scroll", ({target}) => target.matches?.(PICTURES) && stay(target), true);
  const sizes = new ResizeObserver((changes) => {  // once it is laid out: to ask sooner would cost a tenth of each click
    new Set(changes.map(({target}) => target.closest(PICTURES))).forEach((picture) => {
      if (!picture) return;
      picture.toggleAttribute("data-wide", picture.scrollWidth > picture.clientWidth + 2);
      reveal(picture);
      if (picture.scrollLeft || picture.scrollTop) stay(picture);
      name(picture);
    });
    lead();
  });
  const ARROW = 64;  // pixels between two maps in a row
  const lead = () => {  // the arrow from a map to the next one points to where that stands
    const arrow = document.querySelector(".st-key-maps .leads-to"), maps = arrow?.closest(".st-key-maps");
    const drawn = [...(maps?.children ?? [])].filter((one) => !one.contains(arrow));
    arrow?.toggleAttribute("data-down", drawn.reduce((sum, one) => sum + one.offsetWidth, ARROW) > maps.clientWidth);
  };
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
  const boxes = ["st-key-box", "st-key-given"].map((name) => document.getElementsByClassName(name));
  const unsent = () => {  // boxes in which something is typed that is not applied yet: for the style sheet, see there
    for (const [box] of boxes) box?.toggleAttribute("data-unsent", !!box.querySelector('[data-testid="InputInstructions"]:not(:empty)'));
  };
  const numbers = document.getElementsByClassName("st-key-pasted");
  let pasted;
  const check = () => {  // what was pasted on the tab Check stands in its box once that is there, and is applied
    const box = pasted && numbers[0]?.querySelector("textarea");
    if (!box) return;
    box.focus();
    box.select();
    document.execCommand("insertText", false, pasted);
    pasted = box.blur();
  };
  document.addEventListener("paste", ({target, clipboardData}) => {
    const sources = document.querySelectorAll(".st-key-checked button");
    if (!sources.length || target.closest?.("input, textarea")) return;
    pasted = clipboardData.getData("text");
    if (!numbers[0]) sources[sources.length - 1].click();
    check();
  });
  const models = document.getElementsByClassName("st-key-model"), lines = document.getElementsByClassName("model-line");
  const explain = () => {  // in the open list of models: what each is
    if (!models[0]?.querySelector('[aria-expanded="true"]')) return;
    const known = Object.fromEntries([...lines].map(({dataset}) => [dataset.name, dataset.line]));
    document.querySelectorAll('[role=listbox][aria-label="Model"] [role=option]').forEach((one) => {
      one.dataset.line = known[one.textContent] ?? "";
      one.closest("[data-testid]").dataset.lines = "";
    });
  };
  const TALL = {"--row-one": document.getElementsByClassName("st-key-row-one"), "--changes": document.getElementsByClassName("st-key-changes")};
  const tall = new ResizeObserver((seen) => seen.forEach(({target, contentRect}) => {  // what stands beside them keeps in view
    document.documentElement.style.setProperty(target.tall, `${contentRect.height}px`);
  }));
  const ready = () => {
    for (const [name, [one]] of Object.entries(TALL)) if (one && !one.tall) tall.observe(Object.assign(one, {tall: name}));
    document.body.append(...(spoken.isConnected ? [] : [spoken]));
    document.querySelectorAll("section[role=presentation][aria-label]").forEach((place) => place.setAttribute("role", "group"));
    document.querySelectorAll('.stCode pre:has(code[style*="white-space: pre;"])').forEach((code) => { code.tabIndex = 0; });  // it scrolls
    [...charts].forEach((chart) => {
      const picture = chart.closest(PICTURES), painted = picture && chart.querySelector(".marks")?.parentElement;
      if (!painted) return;
      if (picture.painted !== painted) {
        sizes.observe(picture);
        if (picture.closest(".st-key-maps")) sizes.observe(picture.closest(".st-key-maps"));
        sizes.observe(painted);
        picture.painted = painted;
      }
      name(picture);
      reveal(picture);
      if (picture.scrollLeft || picture.scrollTop) stay(picture);  // what is drawn anew
    });
  };
  const opened = () => {  // the pictures of a first visit are a file until the true ones stand in their place
    const file = document.querySelector(".opening"), screen = document.querySelector(".st-key-narrow-screen .screen");
    if (!file?.hasChildNodes() || (screen?.textContent === "narrow") !== matchMedia("(max-width: 640px)").matches) return;
    const shown = document.querySelector(".st-key-picture-head"), marks = shown?.querySelector(".marks")?.getBoundingClientRect();
    const there = marks && [...file.querySelectorAll("img")].map((one) => one.getBoundingClientRect())
      .some(({x, y}) => Math.hypot(x - marks.x, y - marks.y) < 2);
    if (there || ((marks || !shown) && document.querySelector('[data-test-script-state="notRunning"]'))) file.replaceChildren();
  };
  const {send: ask} = WebSocket.prototype, heard = new WeakSet();  // what ui/brief.py says of a run, which Streamlit passes over
  const runs = (now) => document.documentElement.toggleAttribute("data-runs", now);
  const hear = ({data}) => {
    const said = data.byteLength < 64 && new TextDecoder().decode(data).match(/attnviz (runs|rests)/);
    if (said) runs(said[1] === "runs");
  };
  WebSocket.prototype.send = function (...message) {
    if (!heard.has(this)) {
      heard.add(this);
      this.addEventListener("message", hear);
      this.addEventListener("close", () => runs(false));
    }
    return ask.apply(this, message);
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
  const phone = matchMedia("(max-width: 640px)"), half = matchMedia("(max-width: 1240px)");
  const screens = {".st-key-narrow-screen": phone, ".st-key-half-screen": half};
  const tell = () => {  // the server draws maps that fit: it hears one thing after another, the next once that is answered
    for (const [key, media] of Object.entries(screens)) {
      const place = document.querySelector(key), box = place?.querySelector("input");
      if (!box) continue;
      if (box.checked !== media.matches) return void box.click();
      if (place.querySelector(".screen")?.textContent !== (media.matches ? "narrow" : "wide")) return;
    }
  };
  for (const media of Object.values(screens)) media.addEventListener("change", tell);
  const rerun = {key: "r", code: "KeyR", keyCode: 82, bubbles: true};
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => setTimeout(() => {  // charts have their colors
    for (const part of ["keydown", "keyup"])  // from the server: Streamlit's own key asks it again, once it is let go
      document.body.dispatchEvent(new KeyboardEvent(part, rerun));
  }, 100));
  const folds = document.getElementsByClassName("fold");
  const unfold = () => {  // on a phone the line "Settings" shows the model, too; a page without that line shows it always
    const isOpen = phone.matches && (folds[0]?.offsetParent ? folds[0].open : !!document.querySelector('[data-test-script-state="notRunning"]'));
    document.documentElement.toggleAttribute("data-controls", isOpen);
  };
  document.addEventListener("toggle", unfold, true);
  let waits = false;
  new MutationObserver(() => {
    if (waits) return;
    waits = true;
    requestAnimationFrame(() => { waits = false; ready(); opened(); tell(); unfold(); busy(); typed(); unsent(); check(); explain(); });
  }).observe(document.body, {childList: true, subtree: true, characterData: true, attributes: true, attributeFilter: ["data-stale"]});
  ready();
}

// A lesson on a projector: arrow keys and the keys of a remote control turn the pages, Escape ends it.
if (!window.attnvizPresent) {
  window.attnvizPresent = true;
  const KEYS = {ArrowRight: "lesson-next", PageDown: "lesson-next", ArrowLeft: "lesson-back", PageUp: "lesson-back", Escape: "end-presenting"};
  document.addEventListener("keydown", (event) => {
    if (!(event.key in KEYS) || !document.querySelector(".st-key-presented") || event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.target.matches?.('input, textarea, [role=slider], [class*="st-key-picture"]')) return;
    document.querySelector(`.st-key-${KEYS[event.key]} button`)?.click();
  });
}
