// Draws memory: the cells of tensors and shared arrays, and what one request touches: sectors, banks, other lanes.

const SECTOR_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/** The sectors that a step touches in global memory, in order: sector -> its place. */
function sectorsOf(recording, step) {
  const memory = step && recording.memories[step.memory];
  const sectors = new Set();
  if (memory?.space === "global") {
    forEachElement(step, (_, element) => {
      const last = memory.offset + (element + 1) * memory.itemsize - 1;
      for (let sector = sectorOf(memory, element); sector <= Math.floor(last / SECTOR); sector++) sectors.add(sector);
    });
  }
  return new Map([...sectors].sort((a, b) => a - b).map((sector, place) => [sector, place]));
}

/** The lanes of a step by `key(element)` of what they touch. */
function lanesBy(step, key) {
  const found = new Map();
  forEachElement(step, (lane, element) => {
    const lanes = found.get(key(element)) ?? found.set(key(element), []).get(key(element));
    if (!lanes.includes(lane)) lanes.push(lane);
  });
  return found;
}

const lanesLabel = (lanes) => (lanes.length === 1 ? String(lanes[0]) : `×${lanes.length}`);

// ---------------------------------------------------------------- one memory

function memoryPanel(recording, index) {
  const memory = recording.memories[index];
  const title = make("h3", {}, make("code", {}, memory.name),
    make("small", {}, ` ${memory.space} · ${memory.type}${memory.shape.length ? ` · ${memory.shape.join(" × ")}` : ""}`));
  const range = make("small", { class: "range" });
  const flying = make("small", { class: "flying" });
  const grid = make("div", { class: "cells", role: "img" });
  const node = make("section", { class: "panel memory", "data-memory": index }, make("div", { class: "head" }, title, flying, range), grid);
  let built = "";
  let cells = new Map(); // element -> its cell

  /** The rows and columns to show, and whether there is room for values. */
  function visible(room, overview, touched) {
    const page = memory.shape.length < 2 ? 4 : 8; // rows
    const fit = (across, down, columnPage, rowPage) => {
      const { columns, rows } = sides(memory, across);
      const unique = (split) => [...new Set(touched.map(split))].sort((a, b) => a - b);
      return {
        columns, rows,
        across: part(columns, across, across, Math.min(columnPage, across), unique((element) => element % columns)),
        down: part(rows, memory.space === "shared" ? down : rowPage, down, rowPage, unique((element) => Math.floor(element / columns))),
      };
    };
    const large = overview ? {} : fit(room.large, 16, 8, page);
    if (large.across && large.down) return { ...large, values: true };
    const small = fit(room.small, 32, overview ? 32 : 8, overview ? 32 : page);
    const first = (length) => Array.from({ length }, (_, k) => k);
    return { ...small, across: small.across ?? first(room.small), down: small.down ?? first(32), values: false };
  }

  function build({ columns, rows, across, down, values }) {
    cells = new Map();
    const flat = memory.shape.length < 2;
    const label = (row) => (flat ? row * columns : nameOf(memory, row * columns).slice(memory.name.length).replace(/\[\d+\]$/, ""));
    const parts = [make("span")];
    across.forEach((column, k) => {
      const gap = k > 0 && across[k - 1] !== column - 1;
      parts.push(make("span", { class: "index", "data-gap": gap ? "across" : null }, flat ? `+${column}` : column));
    });
    down.forEach((row, at) => {
      const below = at > 0 && down[at - 1] !== row - 1 ? "down" : null;
      parts.push(make("span", { class: "index row", "data-gap": below }, label(row)));
      across.forEach((column, k) => {
        const element = row * columns + column;
        if (element >= memory.size) return parts.push(make("span", { class: "beyond" }));
        const gap = below ?? (k > 0 && across[k - 1] !== column - 1 ? "across" : null);
        const begins = memory.space === "global" && (element === 0 || sectorOf(memory, element) !== sectorOf(memory, element - 1));
        const value = make("span", { class: "value" });
        const cell = make("span", { class: "cell", "data-element": element, "data-gap": gap, "data-begins": begins ? "sector" : null },
          value, make("span", { class: "who" }));
        cells.set(element, cell);
        parts.push(cell);
      });
    });
    set(grid, "style", `--columns: ${across.length}`);
    set(grid, "data-values", values ? "yes" : null);
    grid.replaceChildren(...parts);
    const whole = across.length * down.length >= memory.size;
    range.replaceChildren(...(whole ? [] : [minimap(columns, rows, across, down)]));
  }

  /** Where the cells shown are in the whole memory. */
  function minimap(columns, rows, across, down) {
    const [left, top] = [across[0], down[0]];
    const box = { x: left, y: top, width: across[across.length - 1] + 1 - left, height: down[down.length - 1] + 1 - top };
    const scale = Math.min(5, 70 / columns, 22 / rows);
    const size = memory.shape.length < 2 ? [70, Math.min(22, 3 * rows)] : [Math.max(8, columns * scale), Math.max(8, rows * scale)];
    const where = memory.shape.length < 2 ? "" : `rows ${spans(down)}, columns ${spans(across)}`;
    return make("span", { class: "map" },
      make("svg", { viewBox: `0 0 ${columns} ${rows}`, width: size[0], height: size[1], preserveAspectRatio: "none", "aria-hidden": "true" },
        make("rect", { class: "all", x: 0, y: 0, width: columns, height: rows }), make("rect", { class: "part", ...box })),
      where || `from ${top * columns} to ${Math.min(memory.size, (down[down.length - 1] + 1) * columns) - 1}`);
  }

  function update({ step, state, block, overview, room }) {
    node.hidden = memory.block !== null && memory.block !== block;
    if (node.hidden) return;
    const mine = step && step.memory === index ? step : null;
    const last = mine ?? recording.steps[state.touched[index][block]];
    const now = [];
    forEachElement(last, (_, element) => now.push(element));
    const shape = visible(room, overview, now);
    const key = `${shape.values} ${shape.columns} ${shape.across} ${shape.down}`;
    if (key !== built) build(shape);
    built = key;
    const lanes = mine ? lanesBy(mine, (element) => element) : new Map();
    const sectors = sectorsOf(recording, mine);
    const read = new Map(); // element -> a value that a lane reads and that differs from what memory holds
    if (mine?.kind === "read") {
      forEachElement(mine, (_, element, value) => {
        if (value !== state.held[index][element - memory.first]) read.set(element, value);
      });
    }
    cells.forEach((cell, element) => {
      const who = lanes.get(element);
      const value = state.held[index][element - memory.first];
      const place = memory.space === "global" ? sectors.get(sectorOf(memory, element)) : undefined;
      set(cell, "data-does", who ? mine.kind : null);
      set(cell, "data-sector", place === undefined ? null : place % 6);
      const begins = place !== undefined && (shape.values || !who) && cell.dataset.begins;
      set(cell, "data-letter", begins ? SECTOR_LETTERS[place] : null);
      set(cell, "data-empty", value === null ? "yes" : null);
      const flies = state.flying[index][element - memory.first];
      set(cell, "data-flying", flies == null ? null : "yes");
      write(cell.firstChild, shape.values ? (value === null ? "·" : short(value, 5)) : "");
      write(cell.lastChild, who ? (read.has(element) ? "≠" : "") + (shape.values ? LETTER[mine.kind] : "") + lanesLabel(who) : "");
      cell.info = { value, who, place, flies, read: read.get(element) };
    });
    const inFlight = state.flying[index].filter((thread) => thread != null).length;
    write(flying, inFlight ? `${count(inFlight)} in flight` : "");
    set(node, "data-touched", mine ? mine.kind : null);
    set(grid, "aria-label", `${memory.name}: ${mine ? `${lanesText(mine.lanes)} ${verb(mine)} ${touchedText(recording, mine)}` : "not touched in this step"}`);
  }
  grid.addEventListener("mouseover", (event) => {
    const cell = event.target.closest(".cell");
    if (!cell?.info) return;
    const { value, who, place, flies, read } = cell.info;
    const parts = [`${nameOf(memory, Number(cell.dataset.element))} = ${value === undefined ? "not recorded" : value === null ? "never written" : value}`];
    if (who) parts.push(lanesText(who) + (read === undefined ? "" : ` read ${short(read, 8)}: in another order, it was there`));
    if (flies != null) parts.push(`in flight: a copy that thread ${threadIdx(recording, flies)} began has not arrived`);
    if (place !== undefined) parts.push(`sector ${SECTOR_LETTERS[place] ?? place}`);
    set(cell, "title", parts.join("; "));
  });
  return { node, update };
}

/** The part of `side` rows or columns to show: all up to `whole`, otherwise at most `most`, in pages, with all those
 * touched; null: these are too many. */
function part(side, whole, most, page, touched) {
  const range = (from, to) => Array.from({ length: Math.min(side, to) - from }, (_, k) => from + k);
  if (side <= whole) return range(0, side);
  if (!touched.length) return range(0, page);
  const [first, last] = [touched[0], touched[touched.length - 1]];
  const from = first - (first % page);
  if (last < from + most) return range(from, Math.max(from + page, last + 1));
  if (last < first + most) return range(first, first + most);
  return touched.length <= most ? touched : null;
}

/** Whole numbers as people write them: "0-15, 32". */
const spans = (numbers) => lanesText(numbers).replace(/^lanes? /, "");

// ---------------------------------------------------------------- one request

function requestPanel(recording) {
  const title = make("h3", {}, "This access");
  const body = make("div", { class: "request" });
  const unmerged = make("p", { class: "quiet" }, recording.language === "cuda" ? UNMERGED : "");
  function update(view) {
    const { player, step, block, room } = view;
    const here = step && step.block === block ? step : null;
    const memory = here ? recording.memories[here.memory] : null;
    const parts = [];
    let head = "This access";
    if (here?.kind === "shuffle" && here.source_lanes) {
      head = "Shuffle: who gets a value from whom";
      parts.push(shuffleArrows(here, room.narrow));
    } else if (here?.kind === "product" && recording.products[here.product]) {
      const { name, shape, tiles } = recording.products[here.product];
      head = `${name} ${shape}: ${tiles[0].type} × ${tiles[1].type} + ${tiles[2].type}`;
      parts.push(productTiles(recording, here, view));
    } else if (memory && here.elements) {
      head = `${memory.space} ${here.kind} of ${memory.name}` + (isBulk(here) ? `: ${count(here.bytes)} bytes` : "");
      const cost = costText(here, !player.problemsHere.length);
      if (cost) head += `: ${cost}`;
      if (isBulk(here)) parts.push(make("p", { class: "quiet" }, BY_ENGINE));
      else parts.push(memory.space === "shared" ? banks(memory, here, room.narrow) : sectorStrips(recording, memory, here));
      if (here.matrices) parts.push(movedMatrices(recording, here, view));
      if (here.outside.length) parts.push(beyondTheEnd(memory, here));
    } else parts.push(make("p", { class: "quiet" }, here ? "Nothing in memory is touched by this step." : "–"));
    write(title, head);
    body.replaceChildren(...parts.filter(Boolean));
    unmerged.hidden = !unmerged.textContent || !memory || isBulk(here);
  }
  return { node: make("section", { class: "panel access" }, make("div", { class: "head" }, title, unmerged), body), update };
}
const BY_ENGINE = "The bulk copy engine moves these bytes, not the lanes of a warp: this is no request, and there are no bank conflicts.";
const UNMERGED = "Counted as written. A trace counts the compiled code, which may merge accesses.";

/** The sectors of a request, each with its elements and the lanes that request them. */
function sectorStrips(recording, memory, step) {
  const wanted = lanesBy(step, (element) => element);
  const strips = [...sectorsOf(recording, step)].map(([sector, place]) => {
    const first = Math.ceil((sector * SECTOR - memory.offset) / memory.itemsize);
    const each = Math.max(1, Math.floor(SECTOR / memory.itemsize));
    const cells = Array.from({ length: each }, (_, k) => {
      const who = wanted.get(first + k);
      return make("span", { class: "word", "data-does": who ? step.kind : null }, who && each <= 8 ? lanesLabel(who) : "");
    });
    return make("span", { class: "strip", "data-sector": place % 6 }, make("b", {}, SECTOR_LETTERS[place] ?? place), cells);
  });
  return make("div", { class: "strips", role: "img", "aria-label": `${strips.length} sectors of 32 bytes, with the lanes that want them` }, strips);
}

/** 32 banks from left to right, if it is narrow in two rows; where words are stacked, they are served one after the other. */
function banks(memory, step, narrow) {
  const words = new Map(); // word -> lanes
  const perElement = Math.max(1, memory.itemsize / 4);
  forEachElement(step, (lane, element) => {
    for (let k = 0; k < perElement; k++) {
      const word = wordOf(memory, element) + k;
      const lanes = words.get(word) ?? words.set(word, []).get(word);
      if (!lanes.includes(lane)) lanes.push(lane);
    }
  });
  const stacks = Array.from({ length: BANKS }, () => []);
  [...words.keys()].sort((a, b) => a - b).forEach((word) => stacks[word % BANKS].push(word));
  // Wide accesses take several passes without a conflict; an asynchronous copy past the cache takes none.
  const clash = step.least_wavefronts ? step.wavefronts > step.least_wavefronts : step.kind !== "copy";
  const highest = (some) => Math.max(...some.map((stack) => stack.length), 1);
  const most = highest(stacks);
  const height = Math.max(5, Math.min(20, 130 / most));
  const across = narrow ? BANKS / 2 : BANKS;
  const left = (bank) => (bank % across) * 20;
  const rows = Array.from({ length: BANKS / across }, (_, row) => highest(stacks.slice(row * across, (row + 1) * across)) * height);
  const top = (bank) => (bank < across ? 0 : rows[0] + 24);
  const under = (bank) => top(bank) + rows[Math.floor(bank / across)]; // where its number is
  const drawn = stacks.flatMap((stack, bank) =>
    stack.map((word, k) =>
      make("g", {},
        make("rect", { x: left(bank) + 0.5, y: top(bank) + k * height + 0.5, width: 19, height: height - 1, class: "word", "data-does": step.kind, "data-conflict": clash && stack.length > 1 ? (height >= 12 ? "some" : "many") : null }),
        height >= 12 ? make("text", { x: left(bank) + 10, y: top(bank) + k * height + height / 2 }, lanesLabel(words.get(word))) : null,
        make("title", {}, `bank ${bank}, word ${word}: ${lanesText(words.get(word))}`))));
  const axis = Array.from({ length: BANKS }, (_, bank) =>
    make("text", { x: left(bank) + 10, y: under(bank) + 9, class: "axis" }, bank));
  return make("svg", {
    class: "banks", viewBox: `0 0 ${across * 20} ${under(BANKS - 1) + 18}`, role: "img",
    "aria-label": `32 banks; at most ${most} different words in one bank, ${most === 1 || !clash ? "no conflict" : "so they are served one after the other"}`,
  }, drawn, axis);
}

/** Arrows from the lanes that give a value, above, to the lanes that get it; if it is narrow, from left to right. */
function shuffleArrows(step, narrow) {
  const at = (along, across) => (narrow ? [across * 2.6, along] : [along, across]); // from 0 to 640, and from 0 to 110
  const boxes = (lanes, across) => lanes.map((lane) => {
    const [x, y] = at(lane * 20 + 10, across);
    return make("g", {}, make("rect", { x: x - 9.5, y: y - 9, width: 19, height: 18, class: "word", "data-does": "shuffle" }), make("text", { x, y }, lane));
  });
  const givers = [...new Set(step.source_lanes.filter((lane) => lane !== null))];
  const head = narrow ? "m -7 -4 l 7 4 l -7 4" : "m -4 -7 l 4 7 l 4 -7";
  const arrows = step.lanes.map((lane, k) => {
    const from = step.source_lanes[k];
    if (from === null) return null;
    return make("path", { class: "arrow", "data-from": from, "data-to": lane,
      d: `M ${at(from * 20 + 10, narrow ? 15 : 22)} L ${at(lane * 20 + 10, narrow ? 99 : 88)} ${head}` });
  });
  return make("svg", { class: "banks", viewBox: narrow ? "-10 0 306 640" : "0 0 640 116", role: "img",
    "aria-label": step.lanes.map((lane, k) => `lane ${lane} from ${step.source_lanes[k]}`).join(", ") },
    boxes(givers, narrow ? 10 : 11), arrows.filter(Boolean), boxes(step.lanes, narrow ? 105 : 101));
}

/** The end of a tensor, and where addresses beyond it point. */
function beyondTheEnd(memory, step) {
  const lines = step.outside.slice(0, 4).map(([lane, text]) => {
    const [, bytes, side] = text.match(/([\d,]+) bytes? (past|before|after|beyond)/) ?? [];
    const [, index] = text.match(/\[(\d+)\], but/) ?? []; // what Python says
    const number = (digits) => Number(digits.replaceAll(",", ""));
    const away = bytes ? Math.floor(number(bytes) / memory.itemsize) : index ? number(index) - memory.size : null;
    const inside = [memory.size - 2, memory.size - 1].filter((element) => element >= 0);
    const cells = inside.map((element) => make("span", { class: "word" }, element));
    const beyond = away === null || away < 0 || away > 6
      ? [make("span", { class: "far" }, "…"), make("span", { class: "word", "data-does": "outside" }, lane)]
      : Array.from({ length: away + 1 }, (_, k) =>
          make("span", { class: "word", "data-does": k === away ? "outside" : null, "data-nobody": "yes" }, k === away ? lane : ""));
    const strip = side === "before"
      ? [make("span", { class: "word", "data-does": "outside" }, lane), make("span", { class: "far" }, "…"), make("span", { class: "word" }, 0), make("span", { class: "word" }, 1)]
      : [...cells, make("span", { class: "end", title: `${memory.name} ends here` }), ...beyond];
    return make("p", { class: "outside" }, make("span", { class: "strip" }, strip), ` lane ${lane}: ${text}`);
  });
  const rest = step.outside.length - lines.length;
  return make("div", {}, lines, rest > 0 ? make("p", { class: "quiet" }, `and ${rest} more lane${rest === 1 ? "" : "s"}`) : null);
}
