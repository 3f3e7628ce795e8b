// As much of a canvas as the map and the lines need, written down as SVG.

class SvgCanvas {
  dot = 1;
  style = {};
  parts = [];
  moves = [];

  getContext() {
    return Object.assign(this, {measure: document.createElement("canvas").getContext("2d")});
  }

  element(tag, attributes, text = "") {
    const written = Object.entries(attributes).map(([name, value]) => ` ${name}="${SvgCanvas.escaped(value)}"`).join("");
    const moved = this.moves.flat().join(" ");
    this.parts.push(`<${tag}${written}${moved && ` transform="${moved}"`}>${SvgCanvas.escaped(text)}</${tag}>`);
  }

  static escaped(text) {
    return String(text).replace(/[<>&"]/g, character => `&#${character.codePointAt(0)};`);
  }

  save() { this.moves.push([]); }
  restore() { this.moves.pop(); }
  translate(x, y) { this.moves.at(-1)?.push(`translate(${x} ${y})`); }
  rotate(angle) { this.moves.at(-1)?.push(`rotate(${angle * 180 / Math.PI})`); }
  setTransform() {}
  getImageData() {}
  putImageData() {}

  measureText(text) {
    this.measure.font = this.font;
    return this.measure.measureText(text);
  }

  fillText(text, x, y) {
    const anchor = {left: "start", right: "end", center: "middle"}[this.textAlign], [, bold, size, family] = /^(600 )?(\S+) (.*)$/s.exec(this.font);
    const style = {"font-size": size, "font-family": family, "font-weight": bold ? 600 : 400, "text-anchor": anchor, fill: this.fillStyle};
    this.element("text", {x, y, "dominant-baseline": "central", "xml:space": "preserve", ...style}, text);
  }

  fillRect(x, y, width, height) {
    this.element("rect", {x, y, width, height, fill: this.fillStyle, "shape-rendering": "crispEdges"});
    if (this.globalCompositeOperation === "destination-over") this.parts.unshift(this.parts.pop());
  }

  strokeRect(x, y, width, height) {
    this.element("rect", {x, y, width, height, fill: "none", stroke: this.strokeStyle, "stroke-width": this.lineWidth});
  }

  beginPath() { this.path = ""; }
  moveTo(x, y) { this.path += `M${x} ${y}`; }
  lineTo(x, y) { this.path += `L${x} ${y}`; }

  stroke() {
    const style = {stroke: this.strokeStyle, "stroke-width": this.lineWidth, "stroke-opacity": this.globalAlpha ?? 1};
    this.element("path", {d: this.path, fill: "none", ...style});
  }

  // Cells of a map; a blocked one has strokes of its rule, as `paint` draws them.
  cells([x, y, width, height], {rows, columns}, ground, marks, colors) {
    const [w, h] = [width / columns, height / rows];
    for (let i = 0; i < ground.length; i++) {
      const [left, top] = [x + i % columns * w, y + Math.floor(i / columns) * h], [right, bottom] = [left + w, top + h];
      this.fillStyle = `rgb(${colors.parts(ground[i])})`;
      this.fillRect(left, top, w, h);
      const strokes = {0: [[left, bottom, right, top]], 1: [[left, top, right, bottom]], 2: [[left, bottom, right, top], [left, top, right, bottom]]};
      strokes[9] = strokes[2];
      for (const [x1, y1, x2, y2] of strokes[marks[i]] ?? []) {
        Object.assign(this, {strokeStyle: marks[i] === 9 ? colors.warning : colors.hatch, lineWidth: 1, globalAlpha: 1});
        this.beginPath();
        this.moveTo(x1, y1);
        this.lineTo(x2, y2);
        this.stroke();
      }
    }
  }

  text() {
    const size = `width="${this.width}" height="${this.height}" viewBox="0 0 ${this.width} ${this.height}"`;
    return `<svg xmlns="http://www.w3.org/2000/svg" ${size}>${this.parts.join("")}</svg>`;
  }
}
