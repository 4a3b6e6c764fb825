package helm

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"text/template/parse"

	"github.com/sluice-gitops/sluice/internal/lru"
)

// Results keeps the results of template files, up to a number of bytes, so that a file is executed again only if something that it reads has
// changed. It evicts the least recently used first. It is safe for concurrent use.
type Results struct {
	limit int

	mu    sync.Mutex
	cache *lru.Cache[*output] // by the bytes of the hash
	size  int
	found int // results of files that were reused; only tests read it
	texts int // of includes that were reused; only tests read it

	programs uint64 // that keep results here
}

// maxResults also limits files without text.
const maxResults = 64 << 10

// NewResults returns a cache of a number of bytes.
func NewResults(limit int) *Results {
	r := &Results{limit: limit}
	r.cache = lru.NewWithEvict(maxResults, func(gone *output) { r.size -= gone.size() })
	return r
}

// number returns a number for one more program.
func (r *Results) number() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.programs++
	return r.programs
}

// get returns what is kept for a key, and counts it in found or texts.
func (r *Results) get(key [sha256.Size]byte, count *int) (*output, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	out, ok := r.cache.Get(string(key[:]))
	if ok {
		*count++
	}
	return out, ok
}

func (r *Results) put(key [sha256.Size]byte, out *output) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.cache.Peek(string(key[:])); ok || out.size() > r.limit/4 {
		return
	}
	r.size += out.size()
	r.cache.Add(string(key[:]), out)
	for r.size > r.limit && r.cache.Len() > 0 {
		r.cache.RemoveOldest()
	}
}

// programReads is what the files of a program read whose results can be reused, and the templates that they include. It is safe for
// concurrent use.
type programReads struct {
	files   map[string]*readFile
	mutable bool // a template calls a function that changes a map

	ofFiles []scopePath // the first paths

	mu       sync.Mutex
	paths    []scopePath    // by number; only appended to
	known    map[string]int // numbers of paths
	included map[string]*included
	steps    int // of the analyses of included templates
}

// readFile is what one file reads. Executions of different branches read different paths.
type readFile struct {
	number uint32
	named  bool // see fileReads
	blocks [1 + maxBlocks]numbers

	mu     sync.Mutex
	shapes []shape
}

// numbers are the numbers of paths.
type numbers struct {
	list []int
	all  bool
}

// shape is what the executions that take the same branches read.
type shape struct {
	branches uint64
	paths    []int
	recent   *atomic.Pointer[recentKey] // of an execution with values that renderings share
}

// recentKey is the key of an execution with all values of its chart, of which it can have read some.
type recentKey struct {
	inputs inputs
	key    [sha256.Size]byte
}

// maxShapes is the number of combinations of branches of a file whose results are kept.
const maxShapes = 8

// analyse returns what the files of a program read.
func (p *program) analyse(units map[string]unit) *programReads {
	out := &programReads{files: map[string]*readFile{}, mutable: p.mutable(), known: map[string]int{}, included: map[string]*included{}}
	for i, name := range p.names {
		tree := p.tree(name)
		if partial(name) || tree == nil || tree.Root == nil {
			continue
		}
		r := reader{trees: p.tree, name: name, basePath: units[name].basePath, branches: p.branches[name], mutable: out.mutable}
		r.readFile(tree.Root)
		out.files[name] = out.file(uint32(i), r.out)
	}
	out.ofFiles = out.paths
	return out
}

// tree returns a parsed template, or nil.
func (p *program) tree(name string) *parse.Tree {
	if t := p.base.Lookup(name); t != nil {
		return t.Tree
	}
	return nil
}

// mutable reports whether a template calls a function that changes a map.
func (p *program) mutable() bool {
	found := false
	for _, t := range p.base.Templates() {
		if t.Tree == nil {
			continue
		}
		inspect(t.Root, func(n parse.Node) {
			if id, ok := n.(*parse.IdentifierNode); ok && kindOfCall(id.Ident) == mutatorCall {
				found = true
			}
		})
	}
	return found
}

func (p *programReads) file(number uint32, reads *fileReads) *readFile {
	out := &readFile{number: number, named: reads.named}
	always := reads.blocks[0].implied()
	for i := range reads.blocks {
		out.blocks[i] = p.numbers(&reads.blocks[i], always)
		out.named = out.named || out.blocks[i].all
	}
	return out
}

// numbers gives paths their numbers. always has paths at which it is known already whether there is a mapping.
func (p *programReads) numbers(set *pathSet, always map[string]bool) numbers {
	out, implied := numbers{all: set.all}, set.implied()
	for path := range set.paths {
		if above, ok := strings.CutSuffix(path, separator+kindKey); ok && (always[above] || implied[above]) {
			continue
		}
		n, ok := p.known[path]
		if !ok {
			n = len(p.paths)
			p.known[path] = n
			p.paths = append(p.paths, scopePath{strings.Split(path, separator), &atomic.Pointer[keptDigest]{}})
		}
		out.list = append(out.list, n)
	}
	return out
}

// shape returns what an execution with these branches has read. It returns false if that is everything, or if there are too many shapes.
func (f *readFile) shape(branches uint64) (shape, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if i := slices.IndexFunc(f.shapes, func(s shape) bool { return s.branches == branches }); i >= 0 {
		return f.shapes[i], true
	}
	if len(f.shapes) == maxShapes {
		return shape{}, false
	}
	s := shape{branches: branches, recent: &atomic.Pointer[recentKey]{}}
	for i := range f.blocks {
		if i > 0 && branches&(1<<i) == 0 {
			continue
		}
		if f.blocks[i].all {
			return shape{}, false
		}
		s.paths = append(s.paths, f.blocks[i].list...)
	}
	slices.Sort(s.paths)
	s.paths = slices.Compact(s.paths)
	f.shapes = append(f.shapes, s)
	return s, true
}

func (f *readFile) known() []shape {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.shapes // only appended to
}

// reuse finds and keeps results of one rendering of a program.
type reuse struct {
	results *Results
	program *program
	paths   []scopePath // of the program, at least up to those that its files read
}

// file returns what a file reads, or nil if its result is neither found nor kept.
func (r *reuse) file(name string, e *execution) *readFile {
	if r == nil || e.lost {
		return nil
	}
	return r.program.reads.files[name]
}

// find returns the result of a file from a rendering in which all that it read was the same.
func (r *reuse) find(f *readFile, u unit) (*output, bool) {
	for _, s := range f.known() {
		if key, ok := r.key(f, s, u.digests); ok {
			if out, ok := r.results.get(key, &r.results.found); ok {
				return out, true
			}
		}
	}
	return nil, false
}

// keep keeps the result of a file.
func (r *reuse) keep(f *readFile, u unit, e *execution, out *output) {
	if e.evaluated || e.changed || e.lost {
		return
	}
	if s, ok := f.shape(e.branches); ok {
		if key, ok := r.key(f, s, u.digests); ok {
			r.results.put(key, out)
		}
	}
}

// key identifies the program, the file, the branches, and what the file reads.
func (r *reuse) key(f *readFile, s shape, d *digests) ([sha256.Size]byte, bool) {
	all, shared := d.all()
	if recent := s.recent.Load(); shared && recent != nil && recent.inputs == all {
		return recent.key, true
	}
	var branches [8]byte
	binary.BigEndian.PutUint64(branches[:], s.branches)
	key, ok := r.digest(f.number, string(branches[:]), s.paths, r.paths, d)
	if shared && ok {
		s.recent.Store(&recentKey{all, key})
	}
	return key, ok
}

// digest returns the key of an execution: of the file or include with a number, with what else it depends on, and with what is at paths.
func (r *reuse) digest(number uint32, more string, list []int, paths []scopePath, d *digests) ([sha256.Size]byte, bool) {
	const usual = 16 // bytes of a digest
	text := make([]byte, 0, 12+len(more)+len(list)*usual)
	text = binary.BigEndian.AppendUint64(text, r.program.number)
	text = binary.BigEndian.AppendUint32(text, number)
	text = append(text, more...)
	for _, number := range list {
		var ok bool
		if text, ok = d.appendTo(text, number, paths); !ok {
			return [sha256.Size]byte{}, false
		}
	}
	return sha256.Sum256(text), true
}
