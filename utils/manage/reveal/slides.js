// Starts reveal.js, and makes every slide as large as fits. Pictures get the room that text leaves; where text or picture
// would be small, the output goes beside the text if both are larger there.
(() => {
  const WIDTH = 1280, HEIGHT = 720, MARGIN = 32, ROOM = [WIDTH - 2 * MARGIN, HEIGHT - 2 * MARGIN];
  const LARGEST_TEXT = 1.3, LARGEST_PICTURE = 2, SMALLEST = 0.4, PLAYER = 0.75;
  const CODE = 20, PADDING = 28, BAR = 18;  // as in slides.css
  const WRAPPED = 0.8;
  const PICTURE_TO_TEXT = 0.7;  // letters in a picture may be so much smaller

  /** Lays a slide out at a scale; returns how good that is, 0 if something does not fit. */
  const lay = (content, scale, beside) => {
    const [wide, high] = ROOM.map((side) => side / scale);
    content.classList.toggle("beside", beside);
    Object.assign(content.style, { width: `${wide}px`, transform: `scale(${scale})` });
    content.style.setProperty("--scale", scale);
    let code = scale;  // a long line makes its own block smaller, not the slide
    const narrowed = (block, padding) => {
      block.style.fontSize = "";
      const share = (block.parentElement.clientWidth - padding) / (block.scrollWidth - padding);
      if (share < 1) block.style.fontSize = `${Math.floor(100 * CODE * share) / 100}px`;
      return share;
    };
    for (const block of content.querySelectorAll(".program .highlight, .said .highlight")) {
      const share = narrowed(block, PADDING);
      if (share < 1 && beside) return 0;
      code = Math.min(code, scale * share);
    }
    for (const block of content.querySelectorAll(".result pre")) {  // what would be too small is wrapped instead
      block.style.whiteSpace = "pre";
      const share = narrowed(block, BAR);
      if (share < 1 && beside) return 0;
      if (scale * share < WRAPPED) Object.assign(block.style, { whiteSpace: "pre-wrap", fontSize: "" });
      else code = Math.min(code, scale * share);
    }
    const players = [...content.querySelectorAll(".cuda-player")];
    const pictures = [...content.querySelectorAll("img")].filter((each) => !each.closest(".cuda-player"));
    for (const each of pictures) each.style.width = "0";
    for (const each of players) each.style.maxHeight = "0";
    const output = beside && content.querySelector(".result");
    const left = high - (beside ? output.offsetTop + output.offsetHeight : content.scrollHeight) - 1;
    let smallest = LARGEST_PICTURE;  // of the pictures
    for (const picture of pictures) {
      const fits = Math.min((beside ? output.clientWidth : wide) / picture.naturalWidth, left / pictures.length / picture.naturalHeight);
      const zoom = Math.min(fits, LARGEST_PICTURE / scale);
      picture.style.width = `${Math.floor(zoom * picture.naturalWidth)}px`;
      smallest = Math.min(smallest, zoom * scale);
    }
    for (const player of players) {  // what is further down is reached by scrolling
      Object.assign(player.style, { zoom: PLAYER, maxHeight: `${Math.floor(left / PLAYER)}px`, overflowY: "auto" });
      smallest = Math.min(smallest, PLAYER * scale, left / high);
    }
    Object.assign(content.dataset, { text: scale.toFixed(2), code: code.toFixed(2), picture: smallest.toFixed(2) });
    const fits = content.scrollWidth <= Math.ceil(wide) && content.scrollHeight <= Math.ceil(high);
    return fits ? Math.min(scale, smallest / PICTURE_TO_TEXT) : 0;
  };

  const fit = (content) => {
    const outputs = content.querySelectorAll(".result"), first = content.firstElementChild;
    const pictured = content.querySelector("img, .cuda-player");
    const pairs = outputs.length === 1 && first.matches(".said") && content.children.length > 2;
    let best = [0, SMALLEST, false];
    for (const beside of pairs ? [false, true] : [false]) {
      for (let scale = pictured ? 1 : LARGEST_TEXT; scale > SMALLEST; scale -= 0.05) {
        const size = lay(content, scale, beside);
        if (size > best[0] + 0.01) best = [size, scale, beside];
      }
    }
    lay(content, best[1], best[2]);
  };

  const fitAll = () => document.querySelectorAll(".fitted").forEach((content) => {
    const section = content.parentElement, style = section.getAttribute("style"), hidden = section.hidden;
    section.hidden = false;
    section.style.cssText = "display: block !important; visibility: hidden";  // reveal.js hides slides that are far away
    fit(content);
    section.hidden = hidden;
    section.setAttribute("style", style || "");
  });

  Reveal.initialize({
    width: WIDTH, height: HEIGHT, margin: 0, center: false, hash: true, slideNumber: "c/t", transition: "none",
    controls: false, plugins: [RevealNotes],
  }).then(() => { fitAll(); document.body.dataset.ready = "yes"; });
  window.addEventListener("load", fitAll);
})();
