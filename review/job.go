package review

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/session"
	"github.com/sluice-gitops/sluice/hydrate/source"
	"github.com/sluice-gitops/sluice/policy"
	"github.com/sluice-gitops/sluice/renderer"
	"github.com/sluice-gitops/sluice/renderer/fetch"
	"github.com/sluice-gitops/sluice/renderer/signature"
	"github.com/sluice-gitops/sluice/renderer/worker"
)

// A worker process does everything that depends on the head of a merge request, because anybody can write its content:
// it reads the fleet, evaluates layers and policy, compares, and builds the report. The worker has no credential,
// no network, and no file except cached schemas. It requests data from the parent with the questions below; the
// parent answers from the repository's clone.

// The names of the jobs, in worker.Jobs.
const (
	JobReview  = "review"  // reviews a change
	JobExplain = "explain" // explains where the values of a target come from
)

// The questions of a job.
const (
	askObjects = "objects" // hashes, 20 bytes each → frames of objects
	askList    = "list"    // JSON list of prefixes → JSON map of branches
	askFetch   = "fetch"   // JSON list of commits → nothing
	askPush    = "push"    // a frame with the JSON list of moves, then frames of objects → JSON list of results
	askArchive = "archive" // JSON archiveQuestion → the archive
	askPin     = "pin"     // JSON fetch.Ref of an exact version that sluice.lock lacks → JSON fetch.Locked
	askCommit  = "commit"  // JSON fleet.GitCommit of another repository → nothing: its objects can be read
	askVerify  = "verify"  // JSON verifyQuestion → nothing
	askSchema  = "schema"  // JSON schemaQuestion → folder
	askImage   = "image"   // JSON name of an image → JSON imageAnswer
	askPolicy  = "policy"  // the input of ownpolicy.Job → its answer
)

// workerTask is the part of the input that every job has.
type workerTask struct {
	Version string
	Now     time.Time
	Place   string // of the branches, for messages
	Jobs    int
	Detect  bool            // accept a repository of another tool without sluice.yaml
	Trunk   string          // of such a repository
	Alone   bool            // the fleet may not take content from other repositories; see hydrate.Config.Alone
	Only    []source.Pinned // see hydrate.Config.Only
	Trust   *source.Trust   // signers of charts, of the trunk
}

// reviewTask is the input of a review.
type reviewTask struct {
	workerTask
	Request Request
}

// reviewAnswer is the answer of a review.
type reviewAnswer struct {
	Result
	// Contexts are a field of Review.Changes that its JSON form leaves out, in the order of the groups.
	Contexts [][][]string
	Scope    []fleet.AffectedTarget // of Review
}

type archiveQuestion struct {
	Ref    fetch.Ref
	Locked fetch.Locked
}

// verifyQuestion names signers. The parent has their keys, from the trunk.
type verifyQuestion struct {
	archiveQuestion
	Signers []string
}

type schemaQuestion struct {
	KubeVersion, APIVersion, Kind string
	Strict                        bool
}

// Jobs returns the jobs of this package, for the child process.
func Jobs() worker.Jobs {
	return worker.Jobs{JobReview: reviewJob, JobExplain: explainJob}
}

// reviewJob reviews a change in the worker process.
func reviewJob(ctx context.Context, input []byte, ask worker.Ask) ([]byte, error) {
	var task reviewTask
	if err := json.Unmarshal(input, &task); err != nil {
		return nil, fmt.Errorf("read a review task: %w", err)
	}
	s, err := task.session(ask)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	result, err := Local{s}.Review(ctx, task.Request)
	if err != nil {
		return nil, err
	}
	out := reviewAnswer{Result: *result}
	out.separate()
	return json.Marshal(out)
}

// session returns a session of the worker process, which asks the parent for objects, branches, archives, schemas and
// renderings. The caller closes it.
func (t *workerTask) session(ask worker.Ask) (*session.Session, error) {
	remote, err := renderer.NewRemote(ask)
	if err != nil {
		return nil, err
	}
	store := gitstore.OpenSupplied(func(ctx context.Context, hashes []gitstore.Hash) ([]gitstore.Raw, error) {
		return askForObjects(ctx, ask, hashes)
	})
	now := t.Now
	config := hydrate.Config{
		Store: store, Branches: askedBranches{ask, t.Place}, Renderer: remote, Archives: askedArchives{ask},
		Pins: askedPins{ask}, Commits: askedCommits{ask}, Jobs: t.Jobs, Version: t.Version,
		Alone: t.Alone, Only: t.Only, Trust: t.Trust, Detect: t.Detect, Trunk: t.Trunk,
	}
	runtime := session.Runtime{Version: t.Version, Clock: func() time.Time { return now }, Schemas: askedSchemas{ask}, Images: askedImages{ask}}
	return session.InWorker(config, runtime, func(ctx context.Context, input []byte) ([]byte, error) {
		return ask(ctx, askPolicy, input)
	}), nil
}

// separate collects the fields that the JSON form of a change set leaves out.
func (a *reviewAnswer) separate() {
	a.Scope = a.Review.Scope
	if a.Review.Changes == nil {
		return
	}
	for i := range a.Review.Changes.Groups {
		g := &a.Review.Changes.Groups[i]
		var contexts [][]string
		for k := range g.Objects {
			contexts = append(contexts, g.Objects[k].Context)
		}
		a.Contexts = append(a.Contexts, contexts)
	}
}

// join restores the fields that separate collected.
func (a *reviewAnswer) join() error {
	if a.Review == nil {
		return errors.New("the worker sent no review")
	}
	a.Review.Scope = a.Scope
	var groups []diff.Group
	if a.Review.Changes != nil {
		groups = a.Review.Changes.Groups
	}
	if len(a.Contexts) != len(groups) {
		return errors.New("the worker sent an incomplete change set")
	}
	for i := range groups {
		g := &groups[i]
		if len(a.Contexts[i]) != len(g.Objects) {
			return errors.New("the worker sent an incomplete change set")
		}
		for k := range g.Objects {
			g.Objects[k].Context = a.Contexts[i][k]
		}
	}
	return nil
}

// appendFrame appends a frame to out: one byte for the kind, four bytes for the length, then data.
func appendFrame(out []byte, kind byte, data []byte) []byte {
	out = append(out, kind)
	out = binary.BigEndian.AppendUint32(out, uint32(len(data))) //nolint:gosec // objects are far smaller
	return append(out, data...)
}

var errFrame = errors.New("a message ends in the middle of a frame")

func nextFrame(in []byte) (kind byte, data, rest []byte, err error) {
	const head = 5
	if len(in) < head {
		return 0, nil, nil, errFrame
	}
	n := int(binary.BigEndian.Uint32(in[1:head]))
	if n > len(in)-head {
		return 0, nil, nil, errFrame
	}
	return in[0], in[head : head+n], in[head+n:], nil
}

// kindsOfObjects lists the bytes that stand for the kinds of objects in frames.
const kindsOfObjects = "cbtg"

func appendRaw(out []byte, r gitstore.Raw) ([]byte, error) {
	for i, kind := range []string{"commit", "blob", "tree", "tag"} {
		if kind == r.Kind {
			return appendFrame(out, kindsOfObjects[i], r.Data), nil
		}
	}
	return nil, fmt.Errorf("unknown kind of object %q", r.Kind)
}

func nextRaw(in []byte) (gitstore.Raw, []byte, error) {
	kind, data, rest, err := nextFrame(in)
	if err != nil {
		return gitstore.Raw{}, nil, err
	}
	for i, name := range []string{"commit", "blob", "tree", "tag"} {
		if kindsOfObjects[i] == kind {
			return gitstore.Raw{Kind: name, Data: data}, rest, nil
		}
	}
	return gitstore.Raw{}, nil, fmt.Errorf("unknown kind of object %d", kind)
}

// objectsAtOnce limits the objects of one question.
const objectsAtOnce = 1000

func askForObjects(ctx context.Context, ask worker.Ask, hashes []gitstore.Hash) ([]gitstore.Raw, error) {
	out := make([]gitstore.Raw, 0, len(hashes))
	for len(hashes) > 0 {
		now := hashes[:min(len(hashes), objectsAtOnce)]
		hashes = hashes[len(now):]
		question := make([]byte, 0, len(now)*len(gitstore.Hash{}))
		for _, h := range now {
			question = append(question, h[:]...)
		}
		answer, err := ask(ctx, askObjects, question)
		if err != nil {
			return nil, err
		}
		for range now {
			var r gitstore.Raw
			if r, answer, err = nextRaw(answer); err != nil {
				return nil, err
			}
			out = append(out, r)
		}
	}
	return out, nil
}

// askedBranches reads and moves branches through the parent. The parent moves only the preview branch.
type askedBranches struct {
	ask   worker.Ask
	place string
}

// List implements gitstore.Branches.
func (b askedBranches) List(ctx context.Context, prefixes ...string) (map[string]gitstore.Hash, error) {
	var out map[string]gitstore.Hash
	return out, askJSON(ctx, b.ask, askList, prefixes, &out)
}

// Fetch implements gitstore.Branches.
func (b askedBranches) Fetch(ctx context.Context, commits ...gitstore.Hash) error {
	return askJSON(ctx, b.ask, askFetch, commits, nil)
}

// Push implements gitstore.Branches.
func (b askedBranches) Push(ctx context.Context, w *gitstore.Writer, moves []gitstore.Move,
	_ gitstore.PushOptions,
) ([]gitstore.MoveResult, error) {
	head, err := json.Marshal(moves)
	if err != nil {
		return nil, err
	}
	question := appendFrame(nil, 'm', head)
	if w != nil {
		err = w.Raws(func(r gitstore.Raw) (err error) {
			question, err = appendRaw(question, r)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	answer, err := b.ask(ctx, askPush, question)
	if err != nil {
		return nil, err
	}
	var out []gitstore.MoveResult
	return out, json.Unmarshal(answer, &out)
}

// String implements gitstore.Branches.
func (b askedBranches) String() string { return b.place }

func askJSON(ctx context.Context, ask worker.Ask, name string, question, answer any) error {
	input, err := json.Marshal(question)
	if err != nil {
		return err
	}
	data, err := ask(ctx, name, input)
	if err != nil || answer == nil {
		return err
	}
	return json.Unmarshal(data, answer)
}

// askedArchives reads chart archives through the parent, and checks their digests.
type askedArchives struct{ ask worker.Ask }

// Archive implements source.Archives.
func (a askedArchives) Archive(ctx context.Context, r fetch.Ref, l fetch.Locked) ([]byte, error) {
	question, err := json.Marshal(archiveQuestion{r, l})
	if err != nil {
		return nil, err
	}
	return a.ask(ctx, askArchive, question)
}

// Verify implements source.Archives.
func (a askedArchives) Verify(ctx context.Context, r fetch.Ref, l fetch.Locked, signers []signature.Signer) error {
	q := verifyQuestion{archiveQuestion: archiveQuestion{r, l}}
	for _, s := range signers {
		q.Signers = append(q.Signers, s.Name)
	}
	return askJSON(ctx, a.ask, askVerify, q, nil)
}

// askedPins lets the parent resolve charts that sluice.lock lacks.
type askedPins struct{ ask worker.Ask }

// Pin implements source.Pinner.
func (a askedPins) Pin(ctx context.Context, r fetch.Ref) (out fetch.Locked, err error) {
	return out, askJSON(ctx, a.ask, askPin, r, &out)
}

// askedCommits lets the parent fetch commits of other repositories that nobody declares.
type askedCommits struct{ ask worker.Ask }

// FetchCommit implements source.Commits.
func (a askedCommits) FetchCommit(ctx context.Context, c fleet.GitCommit) error {
	return askJSON(ctx, a.ask, askCommit, c, nil)
}

// askedSchemas reads schemas through the parent, which stores them in a folder that the worker may read.
type askedSchemas struct{ ask worker.Ask }

// Answers of the parent if it has no schema.
const (
	answerNoSchema = "!none"
	answerOffline  = "!offline"
)

// Schema implements policy.Schemas.
func (s askedSchemas) Schema(ctx context.Context, kubeVersion, apiVersion, kind string, strict bool) (string, error) {
	question, err := json.Marshal(schemaQuestion{kubeVersion, apiVersion, kind, strict})
	if err != nil {
		return "", err
	}
	folder, err := s.ask(ctx, askSchema, question)
	switch {
	case err != nil:
		return "", err
	case string(folder) == answerNoSchema:
		return "", policy.ErrNoSchema
	case string(folder) == answerOffline:
		return "", policy.ErrSchemasOffline
	}
	return string(folder), nil
}
