// Draws one moment of a recording. Each panel is built once and brought up to date by `update(view)`.
// `view` is { recording, player, step, state, block, warp, pinned, hovered, numbers }; threads are numbers in the block.

/** An element with attributes, listeners (on...) and children; null children are skipped. */
function make(tag, attributes = {}, ...children) {
  const node = SVG_TAGS.has(tag) ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}
const SVG = "http://www.w3.org/2000/svg";
const SVG_TAGS = new Set(["svg", "g", "rect", "line", "path", "text", "title"]);

/** Set an attribute only if it changes: from step to step, most of a page stays the same. */
function set(node, name, value) {
  const text = value === null || value === undefined ? null : String(value);
  if (node.getAttribute(name) === text) return;
  if (text === null) node.removeAttribute(name);
  else node.setAttribute(name, text);
}
function write(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

const LETTER = { read: "r", write: "w", atomic: "a", copy: "c", shuffle: "s", product: "m", line: "•", arrive: "+", barrier: "‖", passed: "›", exit: "×" };
const MARK = { waits: "‖", exited: "×", outside: "!", idle: "" }; // of a thread, where it differs from its step's letter
const SIGNS = [ // the legend: what a thread does, in words, and in which steps
  ...Object.entries({ read: "reads", write: "writes", atomic: "updates", copy: "copies", shuffle: "shuffles", product: "multiplies", arrive: "at a barrier" })
    .map(([kind, text]) => [kind, text, (step) => step.kind === kind]),
  ["outside", "outside", (step) => step.outside.length], ["waits", "waits", (step) => step.kind === "barrier"],
  ["exited", "exited", (step) => step.kind === "exit"],
];
const ORDER = ["①", "②"]; // the two threads of a race

// ---------------------------------------------------------------- source

const MOST_INDENT = 16; // letters; a parameter list aligned with its parenthesis would leave no room for itself

function sourcePanel(recording) {
  const rows = recording.source.map((text, at) => {
    const number = recording.first_line + at;
    const bare = text.trimStart();
    const indent = Math.min(text.length - bare.length, MOST_INDENT);
    const continued = indent + 4; // where a line that is too long for its row continues
    const code = make("code", { style: `padding-left: ${continued}ch; text-indent: -${continued}ch` },
      ...coloured(" ".repeat(indent) + bare, recording.language));
    const row = make("li", { "data-line": number }, make("span", { class: "number" }, number), code);
    row.where = make("span", { class: "where" });
    row.append(row.where);
    return row;
  });
  const list = make("ol", { class: "source", tabindex: 0, "aria-label": "Source" }, rows);
  const missing = make("li", { class: "missing" });
  function update({ player, step, state, block }) {
    const problem = recording.problems[player.problem];
    const at = new Map();
    state.lines[block].forEach((line, thread) => {
      const warp = Math.floor(thread / LANES);
      if (line !== null && !state.exited[block][thread]) at.set(line, (at.get(line) ?? new Set()).add(warp));
    });
    rows.forEach((row) => {
      const line = Number(row.dataset.line);
      set(row, "aria-current", step?.line === line ? "step" : null);
      set(row, "class", step?.line === line ? "current" : null);
      const warps = [...(at.get(line) ?? [])];
      const marks = problem ? problem.lines.map((other, k) => (other === line ? ORDER[k] ?? "" : "")).join("") : "";
      const shown = warps.length > 3 ? `${warps.length} warps` : warps.map((warp) => `w${warp}`).join(" ");
      write(row.where, [marks, shown].filter(Boolean).join(" "));
      set(row.where, "title", warps.length ? `warps that were here last: ${warps.join(", ")}` : null);
    });
    missing.remove();
    if (problem?.kind === "race" && problem.lines.length > 1) {
      const [first, second] = problem.lines;
      const between = /between lines (\d+) and (\d+)/.exec(problem.text); // where its hint wants the barrier
      const lines = between ? `between lines ${between[1]} and ${between[2]}` : `from line ${first} to line ${second}`;
      write(missing, first === second ? "no barrier between two visits" : `no barrier ${lines}`);
      rows[Number(between?.[1] ?? first) - recording.first_line]?.after(missing);
    }
    scrollWithin(list, rows[(step?.line ?? 0) - recording.first_line]);
  }
  return { node: list, update };
}

/** Code with its comments, keywords and strings marked. */
function coloured(text, language) {
  const [comment, words] =
    language === "python"
      ? ["#.*", "def|for|in|if|else|elif|return|range|while|and|or|not|lambda"]
      : ["//.*", "__\\w+__|void|const|float|int|size_t|unsigned|char|double|half|for|if|else|return|while|extern|template|bool|auto"];
  const parts = text.split(new RegExp(`(${comment}|\\b(?:${words})\\b)`));
  return parts.map((part, k) =>
    k % 2 === 0 ? part : make("span", { class: new RegExp(`^${comment}`).test(part) ? "comment" : "word" }, part),
  );
}

/** Bring a row into view without moving the page. */
function scrollWithin(list, row) {
  if (!row) return;
  const [above, below] = [row.offsetTop, row.offsetTop + row.offsetHeight]; // relative to the list
  if (above < list.scrollTop) list.scrollTop = above;
  else if (below > list.scrollTop + list.clientHeight) list.scrollTop = below - list.clientHeight;
}

// ---------------------------------------------------------------- threads

function threadsPanel(recording, { pin, hover, differs }) {
  const most = Math.max(...recording.blocks.map((block) => block.threads));
  const cells = Array.from({ length: most }, (_, thread) =>
    make("span", { role: "gridcell", class: "thread", tabindex: thread ? -1 : 0, "data-thread": thread }),
  );
  const warps = [];
  for (let first = 0; first < most; first += LANES) {
    const name = make("span", { role: "rowheader", class: "name" }, `warp ${first / LANES}`);
    const row = make("div", { class: "lanes", role: "presentation" }, cells.slice(first, first + LANES));
    warps.push(make("div", { role: "row", class: "warp" }, name, row));
  }
  const title = make("h3");
  const grid = make("div", {
    class: "threads", role: "grid", style: `--lanes: ${Math.min(LANES, most)}; --half: ${Math.min(LANES / 2, most)}`, "aria-label": "Threads: a row for each warp. Enter pins a lane",
    onclick: (event) => onThread(event, pin),
    onmouseover: (event) => onThread(event, hover),
    onmouseleave: () => hover(null),
    onkeydown: walk,
  }, warps);
  const signs = SIGNS.filter(([, , occurs]) => recording.steps.some(occurs));
  const legend = make("p", { class: "legend", "aria-hidden": "true" },
    signs.map(([does, text]) => make("span", {}, make("span", { class: "thread", "data-does": does }, MARK[does] ?? LETTER[does]), text)),
    differs ? make("span", { title: "in memory: another value than is there if steps run in the order shown" }, make("b", {}, "≠"), "read with another value") : null);
  function onThread(event, what) {
    const cell = event.target.closest(".thread");
    if (cell) what(Number(cell.dataset.thread));
  }
  function walk(event) {
    const at = cells.indexOf(event.target);
    const by = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: LANES, ArrowUp: -LANES }[event.key];
    if (at < 0 || (by === undefined && event.key !== "Enter")) return;
    event.preventDefault();
    event.stopPropagation();
    if (event.key === "Enter") return pin(at);
    const next = cells[at + by];
    if (!next || next.hidden) return;
    set(cells[at], "tabindex", -1);
    set(next, "tabindex", 0);
    next.focus();
    hover(at + by);
  }
  function update({ player, step, state, block, pinned }) {
    const { index, threads } = recording.blocks[block];
    const problem = recording.problems[player.problem];
    const waiting = state.waits[block].filter(Boolean).length;
    const exited = state.exited[block].filter(Boolean).length;
    write(title, `Block (${index}): ${threads} threads` + (waiting ? `, ${waiting} waiting` : "") + (exited ? `, ${exited} exited` : ""));
    warps.forEach((row, warp) => set(row, "data-active", step?.block === block && step.warp === warp ? "yes" : null));
    const here = step && step.block === block ? step : null;
    scrollWithin(grid, warps[here?.warp]);
    const outside = new Set(here?.outside.map(([lane]) => lane));
    cells.forEach((cell, thread) => {
      cell.hidden = thread >= threads;
      if (cell.hidden) return;
      const [warp, lane] = [Math.floor(thread / LANES), thread % LANES];
      let does = state.exited[block][thread] ? "exited" : state.waits[block][thread] ? "waits" : "idle";
      if (here?.warp === warp && here.lanes.includes(lane) && !(isByEngine(here) && does !== "idle")) {
        does = here.kind === "barrier" ? "waits" : here.kind === "exit" ? "exited" : outside.has(lane) ? "outside" : here.kind;
      }
      const involved = problem ? problem.threads.findIndex(([b, t]) => b === block && t === thread) : -1;
      set(cell, "data-does", does);
      set(cell, "data-now", here?.warp === warp && here.lanes.includes(lane) ? "yes" : null);
      set(cell, "data-involved", involved < 0 ? null : involved + 1);
      set(cell, "aria-selected", pinned.includes(thread) ? "true" : "false");
      write(cell, involved >= 0 ? ORDER[involved] ?? "!" : MARK[does] ?? LETTER[does]);
      const waits = state.waits[block][thread];
      set(cell, "aria-label", `warp ${warp} lane ${lane}: ${does === "waits" && waits ? `waits at ${waits}` : does}`);
      set(cell, "title", `lane ${lane} of warp ${warp}, thread ${threadIdx(recording, thread)}: ${waits ? `waits at ${waits}` : does}`);
    });
  }
  return { node: make("section", { class: "panel threads-of-block" }, make("div", { class: "head" }, title, legend), grid), update };
}

// ---------------------------------------------------------------- variables of lanes

function variablesPanel(recording) {
  const title = make("h3", {}, "Variables");
  const table = make("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": "Variables of lanes" });
  function update({ step, state, block, pinned, hovered }) {
    const here = step && step.block === block ? step : null;
    const first = here ? here.warp * LANES + here.lanes[0] : 0;
    const shown = [...pinned];
    if (hovered !== null && !shown.includes(hovered)) shown.push(hovered);
    if (!shown.length) shown.push(first);
    const threads = shown.filter((thread) => thread < recording.blocks[block].threads);
    const names = [...new Set(threads.flatMap((thread) => Object.keys(state.variables[block][thread])))];
    const changed = new Set(here?.variables.map(([name]) => name));
    const head = threads.map((thread) => {
      const kind = pinned.includes(thread) ? "pinned" : thread === hovered ? "hovered" : "first active lane";
      return make("th", { scope: "col", title: kind },
        `lane ${thread % LANES}${recording.blocks[block].threads > LANES ? ` of warp ${Math.floor(thread / LANES)}` : ""}`,
        make("small", {}, kind));
    });
    const does = threads.map((thread) => {
      const items = here && here.warp === Math.floor(thread / LANES) ? laneText(recording, here, thread % LANES, state.held[here.memory]) : "";
      return make("td", {}, items || "–");
    });
    const row = (name, tds, mark) => make("tr", { "data-changed": mark ? "yes" : null }, make("th", { scope: "row" }, name), tds);
    const rows = names.map((name) =>
      row(make("code", {}, name), threads.map((thread) => make("td", {}, short(state.variables[block][thread][name] ?? null, 10) || "–")),
        changed.has(name)));
    table.replaceChildren(make("table", {},
      make("thead", {}, make("tr", {}, make("td"), head)),
      make("tbody", {},
        row("threadIdx", threads.map((thread) => make("td", {}, threadIdx(recording, thread)))),
        rows, row("now", does))));
  }
  return { node: make("section", { class: "panel variables" }, title, table), update };
}

/** What one lane does in a step: "reads tile[3][5] = 0.25". `held` is what the memory holds when steps are played. */
function laneText(recording, step, lane, held) {
  const outside = step.outside.find(([other]) => other === lane);
  if (outside) return outside[1];
  const at = step.lanes.indexOf(lane);
  if (at < 0) return "";
  if (step.kind === "arrive" || step.phase !== null) return phaseVerb(recording, step, true);
  if (step.kind === "barrier") return "waits at the barrier";
  if (step.kind === "product") return "multiplies";
  if (step.kind === "shuffle") return step.source_lanes?.[at] == null ? "shuffles" : `from lane ${step.source_lanes[at]}`;
  if (isBulk(step)) return `${verb(step, false)} ${touchedText(recording, step)}`;
  const parts = [];
  forEachElement(step, (other, element, value) => {
    if (other !== lane) return;
    const there = step.kind === "read" && held ? held[element - recording.memories[step.memory].first] : value;
    const differs = there !== value && there !== undefined ? ` (in this order ${short(there, 8) || "nothing"} is there)` : "";
    parts.push(`${nameOf(recording.memories[step.memory], element)} = ${short(value, 8)}${differs}`);
  });
  return parts.length ? `${verb(step, false)} ${parts.join(", ")}` : { exit: "exits", passed: "goes on" }[step.kind] ?? "";
}

// ---------------------------------------------------------------- problems

/** Text in which `...` is code. */
const withCode = (text) => text.split("`").map((part, k) => (k % 2 ? make("code", {}, part) : part));

function problemsPanel(recording, { visit }) {
  if (!recording.problems.length) return { node: null, update() {} };
  const items = recording.problems.map((problem, k) => {
    const steps = problem.sides.map(({ step, thread, line }, side) => {
      const who = thread ? `thread ${threadIdx(recording, thread[1])}, ` : "";
      const text = `${ORDER[side] ?? ""} ${who}line ${line}, step ${count(step + 1)}`;
      return make("button", { type: "button", onclick: () => visit(k, step, thread?.[1]) }, text);
    });
    const [text, ...hints] = problem.text.split("\n");
    return make("li", {}, make("p", {}, make("strong", {}, "! "), ...withCode(text)),
      ...hints.map((hint) => make("p", { class: "hint" }, ...withCode(hint.trim()))), make("p", { class: "sides" }, steps));
  });
  const title = make("h3", {}, `${items.length} problem${items.length === 1 ? "" : "s"}`);
  const list = make("ol", {}, items);
  function update({ player }) {
    items.forEach((item, k) => set(item, "class", player.problem === k ? "chosen" : null));
    scrollWithin(list, items[player.problem]);
  }
  return { node: make("section", { class: "panel problems" }, title, list), update };
}
