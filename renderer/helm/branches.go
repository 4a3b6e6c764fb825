package helm

import (
	"strings"
	"text/template/parse"
)

// A disabled file reads only its condition, although its body would read much more. So the branches of a file have marks, and a rendering
// records which of them it executed. A mark is an empty text node that the writer recognises by its address: templates cannot contain one,
// and it writes nothing.

// maxBlocks is the number of marked branches of one file.
const maxBlocks = 63

// mark is a place of a file.
type mark struct {
	file  string
	block int // 1 to maxBlocks
}

// markBranches adds marks to the branches of a file, and returns the blocks.
func markBranches(file string, root *parse.ListNode, marks map[*byte]mark) map[*parse.ListNode]int {
	blocks := map[*parse.ListNode]int{}
	add := func(l *parse.ListNode) {
		if l == nil || len(blocks) == maxBlocks {
			return
		}
		text := make([]byte, 1)
		blocks[l] = len(blocks) + 1
		marks[&text[0]] = mark{file, blocks[l]}
		l.Nodes = append([]parse.Node{&parse.TextNode{NodeType: parse.NodeText, Text: text[:0]}}, l.Nodes...)
	}
	inspect(root, func(n parse.Node) {
		switch x := n.(type) {
		case *parse.IfNode:
			add(x.List)
			add(x.ElseList)
		case *parse.WithNode:
			add(x.List)
			add(x.ElseList)
		case *parse.RangeNode:
			add(x.List)
			add(x.ElseList)
		}
	})
	return blocks
}

// execution is what an instance of a program records while it executes files.
type execution struct {
	marks            map[*byte]mark
	depth            map[string]int // open includes by name
	nesting, deepest int            // open includes, and the most that were open
	texts            int            // of `tpl` that the instance keeps parsed
	kept             conversions

	volatile bool // the rendering called a function that differs each time
	probe    bool // see Options

	name      string // of the current file
	branches  uint64 // bit N: block N of the current file was executed
	evaluated bool   // the current file called `tpl` for a template, or a function that differs each time: its result is not kept

	reads   *readFile // of the current file; nil: its result is neither found nor kept
	unit    unit
	memo    memo
	results *reuse // can be nil
	changes
}

// start prepares a rendering.
func (e *execution) start(in prepared, results *reuse) {
	e.changes, e.memo, e.volatile = changes{watching: results != nil, shared: in.shared, units: in.units}, memo{}, false
	e.results, e.probe = results, in.probe
}

// end forgets the values of a rendering.
func (e *execution) end() { e.changes, e.memo, e.unit, e.results = changes{}, memo{}, unit{}, nil }

// file prepares the execution of a file.
func (e *execution) file(name string, u unit, reads *readFile) {
	e.name, e.branches, e.evaluated, e.unit, e.reads, e.written = name, 0, false, u, reads, e.written[:0]
}

// writer collects the text of a template without the marks.
type writer struct {
	strings.Builder
	execution *execution
}

func (w *writer) Write(p []byte) (int, error) {
	if len(p) == 0 && cap(p) == 1 {
		if m, ok := w.execution.marks[&p[:1][0]]; ok && m.file == w.execution.name {
			w.execution.branches |= 1 << m.block
		}
		return 0, nil
	}
	return w.Builder.Write(p)
}
