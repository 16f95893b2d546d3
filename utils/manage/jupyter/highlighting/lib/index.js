// Highlights CUDA C++ inside Python cells: all of a %%cuda cell after its first line, and strings that hold kernels.
//
// JupyterLab reads a cell in one language. So a second parser, CodeMirror's for C++, reads these parts, and its classes
// go inside the spans that Python's parser has made (decorations of the highest precedence are innermost), where their
// colours win.
import { syntaxTree } from '@codemirror/language';
import { Prec } from '@codemirror/state';
import { Decoration, EditorView, ViewPlugin } from '@codemirror/view';
import { EditorExtensionRegistry, IEditorExtensionRegistry, jupyterHighlightStyle } from '@jupyterlab/codemirror';
import { parser } from '@lezer/cpp';
import { highlightTree, tags } from '@lezer/highlight';

const MAGIC = /^\s*%%cuda\b[^\n]*\n/;
const HOLDS_CUDA = /__global__|__device__|\b(at|torch)::Tensor\b|<<<.*>>>/;
const QUOTES = /^[rRuU]?("""|'''|"|')/;
const SPECIFIERS = /\b__(global|device|host|shared|constant|restrict|launch_bounds|forceinline|noinline|align)__\b/g;
const TYPES = /\b(void|bool|char|short|int|long|float|double|unsigned|signed|auto|size_t|(?:float|int|uint|double|half)[234x]+|half|dim3)\b/g;
const OURS = 'cuda-course-cpp';

// The parts of a document that are C++: [first, last + 1].
function parts(state) {
  const text = state.doc.toString();
  const magic = MAGIC.exec(text);
  if (magic) return [[magic[0].length, text.length]];
  const found = [];
  syntaxTree(state).iterate({
    enter: node => {
      if (node.name !== 'String') return;
      const string = text.slice(node.from, node.to), quotes = QUOTES.exec(string);
      if (!quotes || !HOLDS_CUDA.test(string)) return;
      const end = string.endsWith(quotes[1]) ? node.to - quotes[1].length : node.to;
      found.push([node.from + quotes[0].length, end]);
    }
  });
  return found;
}

function decorations(state) {
  const marks = [];
  for (const [from, to] of parts(state)) {
    if (from === to) continue;
    const code = state.doc.sliceString(from, to);
    const spans = [];
    for (const [words, tag] of [[SPECIFIERS, tags.keyword], [TYPES, tags.standard(tags.variableName)]]) {
      const classes = jupyterHighlightStyle.style([tag]);
      for (const match of code.matchAll(words)) spans.push([match.index, match.index + match[0].length, classes]);
    }
    const named = [...spans];
    highlightTree(parser.parse(code), jupyterHighlightStyle, (start, end, classes) => {
      if (/^(\/[/*]|")/.test(code.slice(start, end))) {  // names in comments and strings are none
        for (const span of named) if (start <= span[0] && span[1] <= end) spans.splice(spans.indexOf(span), 1);
      }
      if (!spans.some(span => named.includes(span) && start < span[1] && span[0] < end)) spans.push([start, end, classes]);
    });
    spans.sort((one, other) => one[0] - other[0]);
    let at = 0;
    for (const [start, end, classes] of [...spans, [code.length, code.length, '']]) {
      if (at < start) marks.push(Decoration.mark({ class: OURS }).range(from + at, from + start));
      if (start < end) marks.push(Decoration.mark({ class: `${OURS} ${classes}` }).range(from + start, from + end));
      at = Math.max(at, end);
    }
  }
  return Decoration.set(marks, true);
}

const highlighter = ViewPlugin.fromClass(
  class {
    constructor(view) {
      this.decorations = decorations(view.state);
    }
    update(update) {
      if (update.docChanged || syntaxTree(update.state) !== syntaxTree(update.startState)) {
        this.decorations = decorations(update.state);
      }
    }
  },
  { decorations: plugin => plugin.decorations }
);

// What Python's parser makes of C++, such as a string from one apostrophe to the next, does not show. `:where` weighs
// nothing, so that the classes of the highlight style win over it.
const theme = EditorView.baseTheme({
  [`:where(.${OURS})`]: {
    color: 'var(--jp-content-font-color1)',
    fontStyle: 'normal',
    fontWeight: 'normal',
    textDecoration: 'none'
  }
});

export default {
  id: 'cuda-course-highlighting:plugin',
  description: 'Highlights CUDA C++ in %%cuda cells and in strings.',
  autoStart: true,
  requires: [IEditorExtensionRegistry],
  activate: (app, registry) => {
    registry.addExtension({
      name: 'cuda-course-highlighting',
      factory: () => EditorExtensionRegistry.createImmutableExtension([Prec.highest(highlighter), theme])
    });
  }
};
