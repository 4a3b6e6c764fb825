package importer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/importer/flux"
	"github.com/sluice-gitops/sluice/importer/internal/wire"
	"github.com/sluice-gitops/sluice/renderer"
	"github.com/sluice-gitops/sluice/renderer/fetch"
	"github.com/sluice-gitops/sluice/renderer/worker"
)

// Isolated implements fleet.Importer by running each import in a worker process. The process has no credential, file or
// network; it asks for the files of the commit and for locked archives. If a unit of an import exceeds the limits of
// the process, Isolated starts the import again without that unit, which then has an error of its own. It is safe for
// concurrent use.
type Isolated struct {
	workers  renderer.Caller
	archives Archives
	memory   *Memory // nil: none
}

// NewIsolated returns an importer that runs in the worker processes of a renderer.
func NewIsolated(workers renderer.Caller, archives Archives) *Isolated {
	return &Isolated{workers: workers, archives: archives}
}

// Remembering makes the importer keep its results in m. It returns the importer.
func (i *Isolated) Remembering(m *Memory) *Isolated {
	i.memory = m
	return i
}

// JobImport is the name of the job that reads an import, in worker.Jobs.
const JobImport = "import"

// Questions of the job.
const (
	askDirs = "dirs" // a path → JSON map[string][]dirEntry: the directory and, up to a limit, all below it
	askFile = "file" // a path → its bytes
	// a path → JSON []fileAnswer: the file and, up to a limit, the manifests behind it in its directory
	askFiles   = "files"
	askArchive = "archive" // JSON archiveQuestion → the archive
	askMemory  = "memory"  // the parts that earlier processes computed
	askBegin   = "begin"   // the name of the unit that the job builds next → nothing
)

// Limits of one import.
const (
	importTimeout = 2 * time.Minute
	importOutput  = 256 << 20 // bytes of an answer
	importValues  = 4 << 20   // values in the JSON of an answer
	maxExcluded   = 8         // units of one import that may exceed the limits
	maxSlow       = 2         // of these, units that may exceed the limits of time
)

// job is the input of the job.
type job struct {
	Request fleet.ImportRequest
	Detect  bool
	Exclude map[string]string // units that exceeded a limit → the error
	Recall  bool              // the parent answers askMemory
	Tree    string            // the id of the tree; "" if it has none
}

// jobAnswer is the answer of the job.
type jobAnswer struct {
	Targets  []wireTarget
	Problems fleet.Problems
	Detected []byte
}

// memoryUpdate is what a job tells the memory beside its answer.
type memoryUpdate struct {
	Learned map[string][]byte // parts of the answer
	Used    []string          // keys of parts that were known, if there is something to learn
}

// storedAnswer is an encoded answer: its JSON, and the streams of objects, which JSON would escape.
type storedAnswer struct {
	JSON    []byte
	Objects []string
}

// message is what a process sends.
type message struct {
	Answer storedAnswer
	Update memoryUpdate
}

// encode takes the streams of objects out of the answer.
func (a *jobAnswer) encode() (out storedAnswer, err error) {
	for n := range a.Targets {
		for k := range a.Targets[n].Sources {
			s := &a.Targets[n].Sources[k]
			out.Objects = append(out.Objects, s.Objects)
			s.Objects = ""
		}
	}
	out.JSON, err = json.Marshal(a)
	return out, err
}

func (s *storedAnswer) decode() (a jobAnswer, err error) {
	if err = worker.Decode(s.JSON, importValues, &a); err != nil {
		return a, err
	}
	left := s.Objects
	for n := range a.Targets {
		for k := range a.Targets[n].Sources {
			if len(left) == 0 {
				return a, fmt.Errorf("%w: a source has no objects", worker.ErrProtocol)
			}
			a.Targets[n].Sources[k].Objects, left = left[0], left[1:]
		}
	}
	if len(left) != 0 {
		return a, fmt.Errorf("%w: objects without a source", worker.ErrProtocol)
	}
	return a, nil
}

// seal makes one message of an answer and an update of the memory.
func seal(answer *jobAnswer, l *memoryUpdate) ([]byte, error) {
	encoded, err := answer.encode()
	if err != nil {
		return nil, err
	}
	return wire.Marshal(message{Answer: encoded, Update: *l})
}

// unseal also decodes the answer. A process can send many empty values, so what it sends is counted as the process
// itself counts it.
func unseal(data []byte) (m message, answer jobAnswer, err error) {
	if err := wire.Unmarshal(data, &m); err != nil {
		return m, answer, fmt.Errorf("%w: %w", worker.ErrProtocol, err)
	}
	size := 0
	for key, value := range m.Update.Learned {
		size += len(key) + len(value) + entryBytes
	}
	if size > maxLearned {
		return m, answer, fmt.Errorf("%w: more than %d MiB of parts", worker.ErrProtocol, maxLearned>>20)
	}
	answer, err = m.Answer.decode()
	return m, answer, err
}

// wireTarget is a target whose error is a text.
type wireTarget struct {
	fleet.Imported
	Failure string
}

type archiveQuestion struct {
	Ref    fetch.Ref
	Locked fetch.Locked
}

// Import implements fleet.Importer. Content that exceeds a limit of the worker process is a problem of the fleet;
// whatever else ends the process is an error.
func (i *Isolated) Import(ctx context.Context, tree fleet.Tree, request fleet.ImportRequest) ([]fleet.Imported,
	fleet.Problems, error,
) {
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
	j.Exclude, j.Recall = map[string]string{}, i.memory != nil
	key, err := json.Marshal(j)
	if err != nil {
		return jobAnswer{}, err
	}
	id := treeID(tree)
	if i.memory != nil {
		var known storedAnswer
		if wire.Unmarshal(i.memory.answer(key, id), &known) == nil {
			if out, err := known.decode(); err == nil {
				return out, nil
			}
		}
	}
	j.Tree = id
	slow := 0
	for {
		parent := &parent{tree: tree, archives: i.archives, memory: i.memory}
		input, err := json.Marshal(j)
		if err != nil {
			return jobAnswer{}, err
		}
		data, err := i.workers.Call(ctx, worker.Call{
			Job: JobImport, Input: input, Timeout: importTimeout,
			MaxOutput: importOutput, Answer: parent.answer, Large: isLarge,
		})
		if errors.Is(err, worker.ErrTimeout) || errors.Is(err, worker.ErrCPU) {
			slow++
		}
		if unit := parent.unit(); worker.IsLimit(err) && unit != "" && len(j.Exclude) < maxExcluded &&
			slow <= maxSlow && j.Exclude[unit] == "" {
			j.Exclude[unit] = err.Error()
			continue
		}
		if err != nil {
			return jobAnswer{}, err
		}
		m, out, err := unseal(data)
		if err != nil {
			return jobAnswer{}, err
		}
		if i.memory != nil {
			i.memory.learn(m.Update.Learned, m.Update.Used)
		}
		// otherwise it can differ next time: an archive or file could not be read, or a unit exceeded a limit
		if i.memory != nil && parent.lasting() && len(j.Exclude) == 0 {
			encoded, err := wire.Marshal(m.Answer)
			if err != nil {
				return jobAnswer{}, err
			}
			i.memory.storeAnswer(key, id, encoded)
		}
		return out, nil
	}
}

// treeID identifies the content of a tree; "" if it has no id.
func treeID(tree fleet.Tree) string {
	if info, err := tree.Stat("."); err == nil {
		if id, ok := info.Sys().(fmt.Stringer); ok {
			return id.String()
		}
	}
	return ""
}

// parent answers the questions of one job.
type parent struct {
	tree     fleet.Tree
	archives Archives
	memory   *Memory // nil: none

	mu      sync.Mutex
	current string
	passing bool // an answer can be another one for the same commit
}

// lasting reports whether the same commit always gets the same answers.
func (p *parent) lasting() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.passing
}

func (p *parent) unit() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.current
}

// isLarge reports whether answers to a question can have many megabytes.
func isLarge(question string) bool { return question != askBegin }

func (p *parent) answer(ctx context.Context, name string, input []byte) ([]byte, error) {
	out, err := p.find(ctx, name, input)
	if name == askArchive || err != nil && !errors.Is(err, fs.ErrNotExist) {
		p.mu.Lock()
		p.passing = true
		p.mu.Unlock()
	}
	if at, ok := errors.AsType[*fs.PathError](err); ok && at.Path == string(input) { // the child adds the path again
		err = at.Err
	}
	return out, err
}

func (p *parent) find(ctx context.Context, name string, input []byte) ([]byte, error) {
	switch name {
	case askDirs:
		return listDirs(p.tree, string(input))
	case askFile:
		return p.tree.ReadFile(string(input))
	case askFiles:
		return readFiles(p.tree, string(input))
	case askArchive:
		var q archiveQuestion
		if err := json.Unmarshal(input, &q); err != nil {
			return nil, err
		}
		return p.archives.Archive(ctx, q.Ref, q.Locked)
	case askMemory:
		if p.memory == nil {
			return nil, nil
		}
		return p.memory.known(), nil
	case askBegin:
		p.mu.Lock()
		p.current = string(input)
		p.mu.Unlock()
		return nil, nil
	}
	return nil, fmt.Errorf("no question is called %q", name)
}

// Jobs are the jobs of this package, for the child process. A process keeps the builds of its owner between calls.
func Jobs() worker.Jobs { return jobs(newBuilder()) }

func jobs(builder flux.Builder) worker.Jobs {
	files, listed, recalled := &contents{byID: map[string][]byte{}}, &listing{}, newWorkerMemory()
	return worker.Jobs{JobImport: func(ctx context.Context, input []byte, ask worker.Ask) ([]byte, error) {
		var j job
		if err := json.Unmarshal(input, &j); err != nil {
			return nil, fmt.Errorf("read an import: %w", err)
		}
		tree := &askedTree{ctx: ctx, ask: ask, files: files, dirs: listed.of(j.Tree)}
		defer func() { listed.keep(j.Tree, tree.dirs) }()
		recalled.begin(&j)
		if j.Recall {
			if err := recalled.load(func() ([]byte, error) { return ask(ctx, askMemory, nil) }); err != nil {
				return nil, err
			}
		}
		importer := &Importer{
			builder: builder, memory: recalled, archives: askedArchives{ask}, exclude: j.Exclude,
			begin: func(unit string) error {
				_, err := ask(ctx, askBegin, []byte(unit))
				return err
			},
		}
		var out jobAnswer
		if j.Detect {
			var err error
			if out.Detected, err = importer.Detect(ctx, tree); err != nil {
				return nil, err
			}
			return seal(&out, recalled.report())
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
		return seal(&out, recalled.report())
	}}
}
