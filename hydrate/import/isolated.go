package imports

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"sync"
	"time"

	"github.com/sluice-gitops/sluice/hydrate/fleet"
	"github.com/sluice-gitops/sluice/hydrate/import/flux"
	"github.com/sluice-gitops/sluice/renderer"
	"github.com/sluice-gitops/sluice/renderer/fetch"
	"github.com/sluice-gitops/sluice/renderer/worker"
)

// Isolated implements fleet.Importer by running each import in a worker process. The process has no credential, file or network; it asks
// for the files of the commit and for locked archives. If a unit of an import exceeds the limits of the process, Isolated starts the
// import again without that unit, which then has an error of its own. It is safe for concurrent use.
type Isolated struct {
	workers  renderer.Caller
	archives Archives
}

// NewIsolated returns an importer that runs in the worker processes of a renderer.
func NewIsolated(workers renderer.Caller, archives Archives) *Isolated {
	return &Isolated{workers: workers, archives: archives}
}

// JobImport is the name of the job that reads an import, in worker.Jobs.
const JobImport = "import"

// Questions of the job.
const (
	askDir     = "dir"     // a path → JSON []dirEntry
	askFile    = "file"    // a path → its bytes
	askArchive = "archive" // JSON archiveQuestion → the archive
	askBegin   = "begin"   // the name of the unit that the job builds next → nothing
)

// Limits of one import.
const (
	importTimeout = 2 * time.Minute
	importOutput  = 256 << 20 // bytes of an answer
	maxExcluded   = 8         // units of one import that may exceed the limits
	maxSlow       = 2         // of these, units that may exceed the limits of time
)

// job is the input of the job.
type job struct {
	Request fleet.ImportRequest
	Detect  bool
	Exclude map[string]string // units that exceeded a limit → the error
}

// jobAnswer is the answer of the job.
type jobAnswer struct {
	Targets  []wireTarget
	Problems fleet.Problems
	Detected []byte
}

// wireTarget is a target whose error is a text.
type wireTarget struct {
	fleet.Imported
	Failure string
}

type dirEntry struct {
	Name string
	Mode fs.FileMode
	Size int64
}

type archiveQuestion struct {
	Ref    fetch.Ref
	Locked fetch.Locked
}

// Import implements fleet.Importer. Content that exceeds a limit of the worker process is a problem of the fleet; whatever else ends the
// process is an error.
func (i *Isolated) Import(ctx context.Context, tree fleet.Tree, request fleet.ImportRequest) ([]fleet.Imported, fleet.Problems, error) {
	answer, err := i.call(ctx, tree, job{Request: request})
	if worker.IsLimit(err) {
		return nil, overLimit(err), nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("spec.import: %w", err)
	}
	out := make([]fleet.Imported, len(answer.Targets))
	for n := range answer.Targets {
		out[n] = answer.Targets[n].Imported
		if text := answer.Targets[n].Failure; text != "" {
			out[n].Err = errors.New(text)
		}
	}
	return out, answer.Problems, nil
}

func overLimit(err error) fleet.Problems {
	return fleet.Problems{{
		File: "sluice.yaml", Severity: fleet.SeverityError, Message: "spec.import: " + err.Error(),
		Hint: "look for content that repeats without end, or import fewer clusters in one entry",
	}}
}

// Detect implements fleet.Importer.
func (i *Isolated) Detect(ctx context.Context, tree fleet.Tree) ([]byte, error) {
	answer, err := i.call(ctx, tree, job{Detect: true})
	if worker.IsLimit(err) {
		return nil, overLimit(err)
	}
	if failed, ok := errors.AsType[*worker.JobError](err); ok { // such as a commit with too many files
		return nil, fleet.Problems{{File: "sluice.yaml", Severity: fleet.SeverityError, Message: failed.Error()}}
	}
	return answer.Detected, err
}

func (i *Isolated) call(ctx context.Context, tree fleet.Tree, j job) (jobAnswer, error) {
	j.Exclude = map[string]string{}
	slow := 0
	for {
		parent := &parent{tree: tree, archives: i.archives}
		input, err := json.Marshal(j)
		if err != nil {
			return jobAnswer{}, err
		}
		data, err := i.workers.Call(ctx, worker.Call{Job: JobImport, Input: input, Timeout: importTimeout, MaxOutput: importOutput, Answer: parent.answer, Large: isLarge})
		if errors.Is(err, worker.ErrTimeout) || errors.Is(err, worker.ErrCPU) {
			slow++
		}
		if unit := parent.unit(); worker.IsLimit(err) && unit != "" && len(j.Exclude) < maxExcluded && slow <= maxSlow && j.Exclude[unit] == "" {
			j.Exclude[unit] = err.Error()
			continue
		}
		if err != nil {
			return jobAnswer{}, err
		}
		var out jobAnswer
		if err := json.Unmarshal(data, &out); err != nil {
			return jobAnswer{}, fmt.Errorf("%w: %w", worker.ErrProtocol, err)
		}
		return out, nil
	}
}

// parent answers the questions of one job.
type parent struct {
	tree     fleet.Tree
	archives Archives

	mu      sync.Mutex
	current string
}

func (p *parent) unit() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.current
}

// isLarge reports whether answers to a question can have many megabytes.
func isLarge(question string) bool { return question == askFile || question == askArchive }

func (p *parent) answer(ctx context.Context, name string, input []byte) ([]byte, error) {
	switch name {
	case askDir:
		return p.dir(string(input))
	case askFile:
		return p.tree.ReadFile(string(input))
	case askArchive:
		var q archiveQuestion
		if err := json.Unmarshal(input, &q); err != nil {
			return nil, err
		}
		return p.archives.Archive(ctx, q.Ref, q.Locked)
	case askBegin:
		p.mu.Lock()
		p.current = string(input)
		p.mu.Unlock()
		return nil, nil
	}
	return nil, fmt.Errorf("no question is called %q", name)
}

func (p *parent) dir(name string) ([]byte, error) {
	entries, err := p.tree.ReadDir(name)
	if err != nil {
		return nil, err
	}
	out := make([]dirEntry, len(entries))
	for i, e := range entries {
		info, err := e.Info()
		if err != nil {
			return nil, err
		}
		out[i] = dirEntry{Name: e.Name(), Mode: info.Mode(), Size: info.Size()}
	}
	return json.Marshal(out)
}

// Jobs are the jobs of this package, for the child process. A process keeps the builds of its owner between calls.
func Jobs() worker.Jobs { return jobs(newBuilder()) }

func jobs(kept flux.Builder) worker.Jobs {
	return worker.Jobs{JobImport: func(ctx context.Context, input []byte, ask worker.Ask) ([]byte, error) {
		var j job
		if err := json.Unmarshal(input, &j); err != nil {
			return nil, fmt.Errorf("read an import: %w", err)
		}
		tree := &askedTree{ctx: ctx, ask: ask, dirs: map[string][]dirEntry{}}
		importer := &Importer{builder: kept, archives: askedArchives{ask}, exclude: j.Exclude, begin: func(unit string) error {
			_, err := ask(ctx, askBegin, []byte(unit))
			return err
		}}
		var out jobAnswer
		if j.Detect {
			var err error
			if out.Detected, err = importer.Detect(ctx, tree); err != nil {
				return nil, err
			}
			return json.Marshal(out)
		}
		targets, problems, err := importer.Import(ctx, tree, j.Request)
		if err != nil {
			return nil, err
		}
		out.Problems = problems
		for i := range targets {
			t := wireTarget{Imported: targets[i]}
			if t.Err != nil {
				t.Failure, t.Err = t.Err.Error(), nil
			}
			out.Targets = append(out.Targets, t)
		}
		return json.Marshal(out)
	}}
}

// askedTree is the tree of the commit, which the parent reads.
type askedTree struct {
	ctx context.Context //nolint:containedctx // io/fs has no room for one; the tree lives as long as the job
	ask worker.Ask

	mu   sync.Mutex
	dirs map[string][]dirEntry
}

func (t *askedTree) entries(name string) ([]dirEntry, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if known, ok := t.dirs[name]; ok {
		return known, nil
	}
	data, err := t.ask(t.ctx, askDir, []byte(name))
	if err != nil {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: err}
	}
	var out []dirEntry
	if err := json.Unmarshal(data, &out); err != nil {
		return nil, err
	}
	t.dirs[name] = out
	return out, nil
}

func (t *askedTree) find(op, name string) (dirEntry, error) {
	at := dirEntry{Name: ".", Mode: fs.ModeDir}
	if name == "." {
		return at, nil
	}
	if !fs.ValidPath(name) {
		return at, &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	if dir := path.Dir(name); dir != "." {
		parent, err := t.find(op, dir)
		if err != nil {
			return at, err
		}
		if !parent.Mode.IsDir() {
			return at, &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
		}
	}
	entries, err := t.entries(path.Dir(name))
	if err != nil {
		return at, err
	}
	for _, e := range entries {
		if e.Name == path.Base(name) {
			return e, nil
		}
	}
	return at, &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
}

// Open implements fs.FS. Nothing reads files in parts.
func (t *askedTree) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
}

// ReadFile implements fs.ReadFileFS.
func (t *askedTree) ReadFile(name string) ([]byte, error) {
	if _, err := t.find("read", name); err != nil {
		return nil, err
	}
	data, err := t.ask(t.ctx, askFile, []byte(name))
	if err != nil {
		return nil, &fs.PathError{Op: "read", Path: name, Err: err}
	}
	return data, nil
}

// Stat implements fs.StatFS.
func (t *askedTree) Stat(name string) (fs.FileInfo, error) {
	e, err := t.find("stat", name)
	if err != nil {
		return nil, err
	}
	return entryInfo{e}, nil
}

// ReadDir implements fs.ReadDirFS.
func (t *askedTree) ReadDir(name string) ([]fs.DirEntry, error) {
	e, err := t.find("readdir", name)
	if err != nil {
		return nil, err
	}
	if !e.Mode.IsDir() {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: fs.ErrInvalid}
	}
	entries, err := t.entries(name)
	if err != nil {
		return nil, err
	}
	out := make([]fs.DirEntry, len(entries))
	for i, e := range entries {
		out[i] = fs.FileInfoToDirEntry(entryInfo{e})
	}
	return out, nil
}

type entryInfo struct{ e dirEntry }

func (i entryInfo) Name() string       { return i.e.Name }
func (i entryInfo) Size() int64        { return i.e.Size }
func (i entryInfo) Mode() fs.FileMode  { return i.e.Mode }
func (i entryInfo) ModTime() time.Time { return time.Time{} }
func (i entryInfo) IsDir() bool        { return i.e.Mode.IsDir() }
func (i entryInfo) Sys() any           { return nil }

// askedArchives are locked archives that the parent gives.
type askedArchives struct{ ask worker.Ask }

// Archive implements Archives.
func (a askedArchives) Archive(ctx context.Context, r fetch.Ref, l fetch.Locked) ([]byte, error) {
	question, err := json.Marshal(archiveQuestion{r, l})
	if err != nil {
		return nil, err
	}
	return a.ask(ctx, askArchive, question)
}
