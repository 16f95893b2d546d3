// Draws what a warp's lanes hold for the tensor cores: the tiles of a product, and the matrices of ldmatrix and stmatrix.

/** The lane whose elements stand out: one that is pointed at, otherwise one that is pinned, otherwise the first. */
function chosenLane(step, { hovered, pinned }) {
  const own = (thread) => thread !== null && Math.floor(thread / LANES) === step.warp;
  const thread = own(hovered) ? hovered : pinned.filter(own).pop();
  return thread === undefined ? step.lanes[0] : thread % LANES;
}

/** Figures beside each other, and below them what the element is that is pointed at. */
function tilesWithText(figures, lane, hint) {
  const told = make("p", { class: "quiet told" }, hint);
  const node = make("div", { class: "fragments" }, figures, told);
  const choose = (chosen) => {
    for (const cell of node.querySelectorAll("g[data-lane]")) set(cell, "data-own", Number(cell.dataset.lane) === chosen ? "yes" : null);
  };
  choose(lane);
  node.addEventListener("mouseover", (event) => {
    const cell = event.target.closest("g[data-lane]");
    if (!cell) return;
    write(told, cell.told());
    choose(Number(cell.dataset.lane));
  });
  node.addEventListener("mouseleave", () => {
    write(told, hint);
    choose(lane);
  });
  return node;
}

/** One tile: a cell for each group of neighbours that a lane holds. `say(lane, element, places)` is what a cell is. */
function tileFigure({ tile, title, rowNames, narrow, say }) {
  const [down, across] = tile.together;
  const [columns, rows, size] = [tile.columns / across, tile.rows / down, down * across];
  const [width, height, left, top] = [26, 17, rowNames ? 36 : 26, 13];
  const held = tile.cells.length / tile.lanes.length;
  const range = (first, count) => (count === 1 ? `${first}` : `${first}-${first + count - 1}`);
  const labels = (count, step, place) => Array.from({ length: count }, (_, k) => place(range(k * step, step), k));
  const parts = [
    ...labels(columns, across, (text, k) => make("text", { class: "axis", x: left + (k + 0.5) * width, y: 6 }, text.length < 6 ? text : k * across)),
    ...labels(rows, down, (text, k) => make("text", { class: "axis", x: left / 2 - 1, y: top + (k + 0.5) * height }, rowNames ? rowNames[k] : text)),
  ];
  tile.lanes.forEach((lane, at) => {
    for (let e = 0; e < held; e += size) {
      const places = tile.cells.slice(at * held + e, at * held + e + size).map((cell) => [Math.floor(cell / tile.columns), cell % tile.columns]);
      const [x, y] = [left + (places[0][1] / across) * width, top + (places[0][0] / down) * height];
      const cell = make("g", { "data-lane": lane, "data-element": e, style: `--hue: ${(lane >> 2) * 45}; --tint: ${lane & 3}` },
        make("rect", { x: x + 0.5, y: y + 0.5, width: width - 1, height: height - 1 }), make("text", { x: x + width / 2, y: y + height / 2 }, lane));
      cell.told = () => say(lane, e, places);
      parts.push(cell);
    }
  });
  const wide = left + columns * width;
  return make("figure", { class: "tile", style: `--wide: ${(wide / (narrow ? 13 : 15)).toFixed(2)}em` }, make("figcaption", {}, title),
    make("svg", { viewBox: `0 0 ${wide} ${top + rows * height}`, role: "img", "aria-label": `${title}: ${say.label ?? "which lane holds which element"}` }, parts));
}

const elementName = (name, places) => places.map(([row, column]) => `${name}[${row}][${column}]`).join(", ");

/** The matrices of a product. */
function productTiles(recording, step, view) {
  const product = recording.products[step.product];
  const values = (step.operands ?? []).map((number) => recording.operands[number]);
  const [a, b, c, d] = product.tiles;
  const ofSum = new Map(c.cells.map((cell, at) => [cell, values[2]?.[at]]));
  const isWmma = product.name.startsWith("wmma::");
  const figures = [[a, 0], [b, 1], [d, 3]].map(([tile, number]) => {
    const held = tile.cells.length / tile.lanes.length;
    const letter = tile.name.toLowerCase();
    const register = (e) => (isWmma ? `${letter}.x[${e}]` : `register ${letter}${tile.bits > 32 ? e : Math.floor((e * tile.bits) / 32)}`);
    const say = (lane, e, places) => {
      const first = tile.lanes.indexOf(lane) * held + e;
      const shown = places.map((_, k) => values[number]?.[first + k]);
      const before = number === 3 ? places.map(([row, column]) => short(ofSum.get(row * tile.columns + column), 8)) : [];
      const sum = before.some(Boolean) ? `; C was ${before.join(", ")}` : "";
      const what = shown[0] === undefined ? "" : ` = ${shown.map((value) => short(value, 8) || "–").join(", ")}`;
      const last = isWmma && places.length > 1 ? ` to [${e + places.length - 1}]` : "";
      return `${elementName(tile.name, places)}${what}: lane ${lane}, ${register(e)}${last}${sum}`;
    };
    return tileFigure({ tile, title: `${number === 3 ? "C, D" : tile.name} ${tile.rows} × ${tile.columns} ${tile.type}`, narrow: view.room.narrow, say });
  });
  const lane = chosenLane(step, view);
  return tilesWithText(figures, lane, `A cell names the lane that holds it; lane ${lane}'s stand out.${product.quads ? " The first of four products." : ""}`);
}

/** The 8 x 8 matrices that ldmatrix or stmatrix moves: on the left the lanes that give the rows' addresses. */
function movedMatrices(recording, step, view) {
  const tile = recording.matrices[step.matrices];
  const memory = recording.memories[step.memory];
  const count = Math.ceil((step.lanes[step.lanes.length - 1] + 1) / 8);
  const figures = Array.from({ length: count }, (_, matrix) => {
    const down = tile.together[0];
    const rowNames = Array.from({ length: 8 / down }, (_, row) => (down > 1 ? `T${8 * matrix + row * down}-${row * down + down - 1 + 8 * matrix}` : `T${8 * matrix + row}`));
    const say = (lane, e, places) => {
      const shown = places.map(([row, column]) => {
        const at = step.lanes.indexOf(8 * matrix + row);
        const scale = step.width / 8; // elements of the array for each of 16 bits
        const element = step.elements[at] ?? null;
        if (at < 0 || element === null) return "outside";
        const value = scale >= 1 ? step.values?.[at * step.width + column * scale] : undefined;
        return `${nameOf(memory, element + Math.floor(column * scale))}${value === undefined ? "" : ` = ${short(value, 8)}`}`;
      });
      return `${shown.join(", ")}: ${step.kind === "read" ? "to" : "from"} lane ${lane}, register ${matrix}; row ${places[0][0]} is at the address of lane ${8 * matrix + places[0][0]}`;
    };
    return tileFigure({ tile, title: `matrix ${matrix}`, rowNames, narrow: view.room.narrow, say });
  });
  const lane = chosenLane(step, view);
  return tilesWithText(figures, lane, `On the left: the lane that gives a row's address. In a cell: the lane that ${step.kind === "read" ? "gets" : "gives"} it; lane ${lane}'s stand out.`);
}
