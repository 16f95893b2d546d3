// Assembles a player: the controls, the keys and the panels.

const KEYS = [
  ["← →", "one access back, on"],
  ["↑ ↓", "one line back, on"],
  ["B, shift B", "to the next, the previous barrier, or change of one in memory"],
  ["P, shift P", "to the next, the previous problem"],
  ["space", "play, pause"],
  ["Home, End", "to the start, to the end"],
  ["[ ]", "follow the warp before, after; all of them again at the end"],
  ["O", "overview: more of each memory, in small cells"],
  ["Enter", "on a lane: pin its variables (arrows move from lane to lane)"],
  ["Esc", "unpin all lanes"],
  ["?", "show or hide this list"],
];
const SPEEDS = { slow: 1, normal: 2.5, fast: 10 }; // steps per second
const MOVES = { access: "Access", line: "Line", barrier: "Barrier", problem: "Problem" };

/** Show a recording in `root`, an empty element in a shadow tree. Returns the function that shows another one there. */
function assemble(root, recording, start) {
  const player = new Player(recording);
  const chosen = { pinned: [], hovered: null, overview: false };
  let timer = null;

  const by = (name, direction) => () => {
    pause();
    const moved = player.move(name, direction);
    draw(moved ? "" : ` No ${direction > 0 ? "later" : "earlier"} ${name}.`);
  };
  const groups = Object.entries(MOVES)
    .filter(([name]) => name !== "problem" || recording.problems.length)
    .filter(([name]) => name !== "barrier" || recording.steps.some((step) => step.kind === "barrier" || step.barriers.length))
    .map(([name, text]) =>
      make("span", { class: "group", role: "group", "aria-label": text },
        make("button", { type: "button", "aria-label": `previous ${name}`, onclick: by(name, -1) }, "‹"),
        make("span", { "aria-hidden": "true" }, text),
        make("button", { type: "button", "aria-label": `next ${name}`, onclick: by(name, 1) }, "›")));
  const play = make("button", { type: "button", class: "play", onclick: () => (timer ? stop() : run()) }, "Play");
  const speed = select("speed", Object.keys(SPEEDS), "normal", () => timer && run());
  const block = recording.blocks.length > 1
    ? select("block", ["all", ...recording.blocks.map((each) => `(${each.index})`)], "all", (at) => follow(at ? at - 1 : null, player.warp)) : null;
  const warpCount = Math.ceil(Math.max(...recording.blocks.map((each) => each.threads)) / LANES);
  const warp = warpCount > 1
    ? select("warp", ["all", ...Array.from({ length: warpCount }, (_, k) => k)], "all", (at) => follow(player.block, at ? at - 1 : null)) : null;
  const slider = make("input", { type: "range", min: 0, max: player.end, step: 1, "aria-label": "step",
    oninput: () => { pause(); player.go(Number(slider.value)); draw(); } });
  const said = make("p", { class: "sentence", role: "status", "aria-live": "polite" });
  const help = make("dl", { class: "help", hidden: "" }, KEYS.flatMap(([key, text]) => [make("dt", {}, key), make("dd", {}, text)]));
  const helpButton = make("button", { type: "button", "aria-label": "keyboard", "aria-expanded": "false", onclick: showHelp }, "?");

  const overviewButton = make("button", { type: "button", "aria-pressed": "false", onclick: showOverview }, "Overview");
  const pin = (thread) => {
    chosen.pinned = chosen.pinned.includes(thread) ? chosen.pinned.filter((other) => other !== thread) : [...chosen.pinned, thread].slice(-4);
    draw();
  };
  const hover = (thread) => { if (chosen.hovered !== thread) { chosen.hovered = thread; draw(); } };
  const visit = (problem, step, thread) => {
    pause();
    player.problem = problem;
    player.go(step + 1);
    if (player.block !== null) follow(recording.steps[step].block, null);
    if (thread !== undefined && !chosen.pinned.includes(thread)) chosen.pinned = [...chosen.pinned, thread].slice(-2);
    draw();
  };
  const memories = recording.memories.map((_, index) => memoryPanel(recording, index));
  const panels = {
    source: sourcePanel(recording), problems: problemsPanel(recording, { visit }),
    threads: threadsPanel(recording, { pin, hover, differs: player.differs }),
    variables: variablesPanel(recording), request: requestPanel(recording), barriers: barriersPanel(recording),
  };
  const isShared = (index) => recording.memories[index].space === "shared";
  const first = [...memories.keys()].sort((a, b) => isShared(b) - isShared(a)); // shared arrays, then the others
  const cards = make("div", { class: "memories" }, first.filter(isShared).map((index) => memories[index].node), panels.barriers.node,
    first.filter((index) => !isShared(index)).map((index) => memories[index].node));
  const how = recording.language === "python" ? "simulated in Python" : "as written (-O0)";
  const shape = (size) => size.filter((side, k) => k === 0 || size.slice(k).some((other) => other > 1)).join(" × ");
  root.replaceChildren(
    make("header", {}, make("h2", {}, make("code", {}, recording.kernel)),
      make("p", {}, `${shape(recording.grid)} ${shape(recording.grid) === "1" ? "block" : "blocks"} of ${shape(recording.block)} threads`),
      make("p", { class: "how", title: "What each access of the source does. A GPU's compiler may merge accesses and keep values in registers." }, how), helpButton),
    recording.note ? make("p", { class: "note" }, recording.note) : "",
    help,
    make("div", { class: "controls", role: "toolbar", "aria-label": "Move through the steps" }, play, groups, label("Speed", speed),
      block && label("Block", block), warp && label("Warp", warp), overviewButton),
    make("div", { class: "timeline" }, slider, marks()),
    said,
    make("div", { class: "columns" },
      make("div", {}, make("section", { class: "panel code" }, make("h3", {}, "Source"), panels.source.node),
        ...[panels.problems.node].filter(Boolean), panels.variables.node),
      make("div", {}, panels.threads.node, panels.request.node, cards)),
    make("footer", {}, `Recorded: ${recording.kept}`));

  function marks() {
    const at = (step) => `left: ${(100 * (step + 1)) / player.end}%`;
    const barriers = recording.steps.flatMap((step, k) =>
      step.kind === "passed" && recording.steps[k - 1]?.kind !== "passed" ? [make("span", { class: "tick", style: at(k), title: "a barrier is passed" })] : []);
    const problems = recording.problems.flatMap((problem, k) =>
      problem.sides.map(({ step, thread }) =>
        make("button", { type: "button", class: "mark", style: at(step), title: problem.text, tabindex: -1,
          "aria-label": `problem ${k + 1}, step ${step + 1}`, onclick: () => visit(k, step, thread?.[1]) }, "!")));
    return make("div", { class: "marks" }, barriers.length <= 200 ? barriers : [], problems.slice(0, 100));
  }
  function label(text, control) { return make("label", {}, make("span", {}, text), control); }
  function select(name, texts, value, changed) {
    const node = make("select", { name }, texts.map((text) => make("option", { selected: text === value }, text)));
    node.addEventListener("change", () => changed(node.selectedIndex));
    return node;
  }
  function follow(block_, warp_) {
    [player.block, player.warp] = [block_, warp_];
    if (block) block.selectedIndex = block_ === null ? 0 : block_ + 1;
    if (warp) warp.selectedIndex = warp_ === null ? 0 : warp_ + 1;
    draw();
  }
  function showHelp() {
    help.hidden = !help.hidden;
    set(helpButton, "aria-expanded", String(!help.hidden));
  }
  function showOverview() {
    chosen.overview = !chosen.overview;
    set(overviewButton, "aria-pressed", String(chosen.overview));
    draw();
  }
  function pause() {
    clearInterval(timer);
    timer = null;
  }
  function stop() { pause(); draw(); }
  function run() {
    pause();
    if (player.position === player.end) player.go(0);
    timer = setInterval(() => {
      if (!root.isConnected || !player.move("access", 1) || player.position === player.end) pause();
      draw();
    }, 1000 / SPEEDS[speed.value]);
    draw();
  }
  function draw(more = "") {
    const size = parseFloat(getComputedStyle(root).fontSize);
    const width = cards.clientWidth - 6 * size;
    const fit = (cell, most) => [32, 16, 8].find((n) => n <= most && n * cell * size <= width) ?? 8;
    const view = { player, recording, block: player.shown, step: player.step, state: player.state, ...chosen,
      room: { small: fit(1.15, 32), large: fit(2.4, 16), narrow: cards.clientWidth < 32 * size } };
    write(play, timer ? "Pause" : "Play");
    set(said, "aria-live", timer ? "off" : "polite");
    const text = sentence(player) + more;
    write(said, text);
    slider.value = player.position;
    set(slider, "aria-valuetext", text);
    set(root, "data-position", player.position);
    set(root, "data-block", view.block);
    for (const panel of [...Object.values(panels), ...memories]) panel.update(view);
    bringForward(view);
  }
  /** After the shared arrays come the two memories touched last, and first of all one touched now, unless that is beside
   * the other: so they are on the screen, and seldom move. */
  function bringForward({ state, block, step }) {
    const last = (index) => state.touched[index][block] ?? -1;
    const others = first.filter((index) => !isShared(index));
    const front = [...others].sort((a, b) => last(b) - last(a)).slice(0, 2).sort((a, b) => a - b);
    const place = (index, order) => set(memories[index].node, "style", order && `order: ${order}`);
    others.forEach((index) => place(index, front.includes(index) ? null : 1));
    const top = (index) => memories[index].node.offsetTop;
    if (others.includes(step?.memory) && top(step.memory) > top(front[0])) place(front[0], 1);
  }

  const typed = {
    ArrowRight: by("access", 1), ArrowLeft: by("access", -1), ArrowDown: by("line", 1), ArrowUp: by("line", -1),
    b: by("barrier", 1), B: by("barrier", -1), p: by("problem", 1), P: by("problem", -1),
    " ": () => play.click(), "?": showHelp,
    Home: () => { pause(); player.go(0); draw(); }, End: () => { pause(); player.go(player.end); draw(); },
    "]": () => warp && follow(player.block, next(player.warp, 1)), "[": () => warp && follow(player.block, next(player.warp, -1)),
    o: showOverview,
    Escape: () => { chosen.pinned = []; player.problem = null; draw(); },
  };
  function next(warp_, direction) {
    const at = ((warp_ ?? -1) + 1 + direction + warpCount + 1) % (warpCount + 1);
    return at ? at - 1 : null;
  }
  function onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const target = event.composedPath()[0];
    if (target.tagName === "SELECT" || (target.tagName === "BUTTON" && [" ", "Enter"].includes(event.key))) return;
    if (target.classList.contains("source") && ["ArrowUp", "ArrowDown"].includes(event.key) && event.shiftKey) return;
    const does = typed[event.key];
    if (!does) return;
    event.preventDefault();
    does();
  }
  root.addEventListener("keydown", onKey);
  let drawnWidth = 0; // a text below a tile may make the player higher: that is no reason to draw it again
  const watched = new ResizeObserver(() => {
    if (drawnWidth !== root.clientWidth) draw();
    drawnWidth = root.clientWidth;
  });
  watched.observe(root);
  player.go(start === null ? Math.min(1, player.end) : Math.min(start, player.end));
  draw();
  return {
    position: () => player.position,
    remove() { pause(); watched.disconnect(); root.removeEventListener("keydown", onKey); root.replaceChildren(); },
  };
}

/** The sliders that choose among several recorded runs: one for each of `choices`, {name: [values]}. */
function choosers(choices, chosen) {
  const at = Object.fromEntries(Object.keys(choices).map((name) => [name, 0]));
  return Object.entries(choices).map(([name, values]) => {
    const shown = make("output", {}, values[0]);
    const input = make("input", { type: "range", class: "choice", min: 0, max: values.length - 1, value: 0, "aria-label": name, "aria-valuetext": values[0],
      oninput: () => {
        at[name] = Number(input.value);
        write(shown, String(values[at[name]]));
        set(input, "aria-valuetext", values[at[name]]);
        chosen(Object.keys(choices).reduce((number, each) => number * choices[each].length + at[each], 0));
      } });
    return make("label", { class: "chooser" }, make("span", {}, name), input, shown);
  });
}

/** Light or dark, as in the notebook, otherwise as in the system. */
function followTheme(root) {
  const look = () => {
    const { body, documentElement: html } = document;
    const told = body.dataset.jpThemeLight ?? null; // JupyterLab
    const kind = body.dataset.vscodeThemeKind ?? ""; // VS Code
    let theme = null;
    if (told !== null) theme = told === "false" ? "dark" : "light";
    else if (kind) theme = /dark|high-contrast$/.test(kind) ? "dark" : "light";
    else if (html.getAttribute("theme")) theme = html.getAttribute("theme") === "dark" ? "dark" : "light"; // Colab
    set(root, "data-theme", theme);
  };
  look();
  const observer = new MutationObserver(look);
  for (const node of [document.body, document.documentElement]) observer.observe(node, { attributes: true });
}

/** Replace the picture in `host` with a player. `packed` is base64 of gzipped JSON: { choices, runs }. With `focused`, keys
 * work at once. */
async function mount(host, packed, css, focused) {
  host.dataset.mounted = "yes";
  const { choices, runs } = JSON.parse(await unzipped(packed));
  const shadow = host.shadowRoot ?? host.attachShadow({ mode: "open" });
  const root = make("div", { class: "player", role: "region", "aria-label": `player: ${runs[0].kernel}` });
  root.addEventListener("keydown", (event) => event.stopPropagation()); // a notebook's own shortcuts delete cells
  let now = null;
  const show = (number) => {
    const position = now?.position() ?? null;
    now?.remove();
    now = assemble(stage, decoded(runs[number]), position);
  };
  const stage = make("div", { class: "stage", tabindex: -1 });
  root.append(...(runs.length > 1 ? [make("div", { class: "choosers" }, choosers(choices, show))] : []), stage);
  followTheme(root);
  shadow.replaceChildren(make("style", {}, css), root);
  show(0);
  if (focused) stage.focus({ preventScroll: true });
  requestAnimationFrame(() => performance.mark("cuda-player drawn"));
}
