package review

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/compare"
	"github.com/sluice-gitops/sluice/hydrate/ownpolicy"
	"github.com/sluice-gitops/sluice/hydrate/session"
	"github.com/sluice-gitops/sluice/hydrate/source"
	"github.com/sluice-gitops/sluice/policy"
	"github.com/sluice-gitops/sluice/renderer"
	"github.com/sluice-gitops/sluice/renderer/fetch"
	"github.com/sluice-gitops/sluice/renderer/worker"
	"github.com/sluice-gitops/sluice/report"
)

// Limits of one review.
const (
	reviewTimeout  = 15 * time.Minute
	reviewRender   = 12 * time.Minute // of all renderings; the rest is for the comparison and the report
	reviewCPU      = 10 * time.Minute
	reviewMemory   = 2 << 30  // bytes of the process of a command that reviews once; see StartWorkers
	reviewOutput   = 64 << 20 // bytes of the answer
	reviewValues   = 4 << 20  // values in the JSON of the answer
	reviewContents = 1 << 30  // bytes of charts and files that are rendered
	answerObjects  = 256 << 20
	previewObjects = 512 << 20
)

// Workers returns the worker processes that review the merge requests of a repository; they may read the given folders.
type Workers func(repository string, folders ...string) *worker.Workers

// LimitError means that the review of a change exceeded a limit and was stopped. The same head would exceed it again.
type LimitError struct{ Err error }

// Error returns the limit.
func (e *LimitError) Error() string {
	return fmt.Sprintf("%v: %v (make the change smaller, or look for content that repeats without end)", ErrStopped,
		e.Err)
}

// Is matches ErrStopped.
func (e *LimitError) Is(target error) bool { return target == ErrStopped }

// Unwrap returns the limit.
func (e *LimitError) Unwrap() error { return e.Err }

// Isolated returns a Reviewer that does what local does, but in a worker process: it sends the request there, and
// answers the worker's questions from the session of local. The fingerprints of secrets depend on the repository's
// name.
func Isolated(local Local, workers Workers, repository string) Reviewer {
	return isolated{local.Session, workers, repository}
}

type isolated struct {
	session    *session.Session
	workers    Workers
	repository string
}

// Review implements Reviewer.
func (i isolated) Review(ctx context.Context, r Request) (*Result, error) {
	p, err := newParent(ctx, i.session, r)
	if err != nil {
		return nil, err
	}
	defer p.close()
	r.Key, r.Images = derivedKey(r.Key, i.repository), r.Images && !i.session.Runtime.Offline
	data, err := p.call(ctx, i.workers(i.repository, p.schemaFolder), JobReview, p.task(ctx, r))
	if err != nil {
		return nil, err
	}
	out, err := readAnswer(data, r)
	if err != nil {
		return nil, err
	}
	out.Review.Stopped = p.budget.Over()
	out.Review.Unreached = p.wasUnreached() && out.Review.Verdict == report.VerdictError
	return out, nil
}

// task returns the task of a review.
func (p *parent) task(ctx context.Context, r Request) reviewTask {
	out := reviewTask{taskOf(p.session), r}
	out.Detect = p.session.Detect && p.withoutFleet(ctx, r.Base.Tree)
	out.Trust = p.trust
	return out
}

// withoutFleet reports whether a tree has no sluice.yaml. task asks it about the base: a change that removes the file
// does not make the repository one of another tool.
func (p *parent) withoutFleet(ctx context.Context, tree gitstore.Hash) bool {
	_, err := p.session.Store.Snapshot(ctx, tree).Stat(fleet.File)
	return errors.Is(err, fs.ErrNotExist)
}

// taskOf returns the part of the input that every job has.
func taskOf(s *session.Session) workerTask {
	return workerTask{
		Version: s.Runtime.Version, Now: s.Runtime.Clock(), Place: s.Branches.String(), Jobs: s.Jobs,
		Alone: s.Runtime.Untrusted, Only: s.Only, Trunk: s.Trunk,
	}
}

// readAnswer reads the answer to a request. It checks the size, the commits and the verdict: the worker is not trusted.
func readAnswer(data []byte, r Request) (*Result, error) {
	var out reviewAnswer
	if err := decodeAnswer(data, &out); err != nil {
		return nil, err
	}
	if err := out.join(); err != nil {
		return nil, fmt.Errorf("%w: %w", worker.ErrProtocol, err)
	}
	if err := out.check(r); err != nil {
		return nil, fmt.Errorf("%w: %w", worker.ErrProtocol, err)
	}
	return &out.Result, nil
}

// decodeAnswer decodes the answer of a job that call ran.
func decodeAnswer(data []byte, out any) error {
	err := worker.Decode(data, reviewValues, out)
	if worker.IsLimit(err) {
		return &LimitError{err}
	}
	return err
}

// StartWorkers starts the worker processes of a command that reviews once. With worker.Required, a missing restriction
// is an error. stop ends the processes.
func StartWorkers(ctx context.Context, child []string, mode worker.Mode) (workers Workers, stop func(), err error) {
	host := worker.NewHost(worker.Options{
		Command: child, Mode: mode, Size: 1,
		Limits: worker.Limits{Memory: reviewMemory},
	})
	if _, err := host.Check(ctx); err != nil {
		host.Close()
		return nil, nil, fmt.Errorf("isolation: %w", err)
	}
	return func(repository string, folders ...string) *worker.Workers {
		return host.For(worker.Owner{Repository: repository, Trust: worker.Untrusted}, folders...)
	}, host.Close, nil
}

// check refuses an answer about other commits than the requested ones.
func (a *reviewAnswer) check(r Request) error {
	if a.Review.Head != hashText(r.Head.Hash) || a.Review.Base != hashText(r.Base.Hash) {
		return errors.New("the worker reviewed other commits")
	}
	switch a.Review.Verdict {
	case report.VerdictPass, report.VerdictWarn, report.VerdictCaution, report.VerdictFail, report.VerdictError:
	default:
		return fmt.Errorf("the worker sent the verdict %.20q", a.Review.Verdict)
	}
	if a.Preview != nil && r.Preview == nil {
		return errors.New("the worker made a preview that the task does not request")
	}
	return nil
}

// derivedKey returns the key of the fingerprints in reviews of one repository, because workers of one repository must
// not learn the key of another.
func derivedKey(key []byte, repository string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("review of " + repository))
	return mac.Sum(nil)
}

// parent answers the questions of one review. An answer contains only content that the merge request's repository may
// see: its objects, its branches, archives that it locked by digest, and schemas.
type parent struct {
	session      *session.Session
	preview      *compare.Preview
	budget       *renderer.Budget
	renderer     *renderer.RemoteServer
	schemas      policy.Schemas // nil: nothing is judged
	schemaFolder string
	trust        *source.Trust        // of the policy's commit
	pins         *source.KnownServers // of the policy's commit
	commits      *source.KnownHosts   // of the policy's commit
	images       []string             // patterns of the policy's commit, of repositories whose images must exist

	mu        sync.Mutex
	failed    error              // the first error of an answer; the worker knows only its text
	unreached bool               // an answer lacks content that a server may have
	pinned    map[fetch.Ref]bool // that the worker asked for
	asked     int                // images that the worker asked for
}

// wasUnreached reports whether an answer lacked content that a server may have later.
func (p *parent) wasUnreached() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.unreached
}

func newParent(ctx context.Context, s *session.Session, r Request) (*parent, error) {
	credentials := s.Credentials
	if s.Runtime.Untrusted { // they are for the commits of Only
		credentials = nil
	}
	p := &parent{
		session: s, preview: r.Preview, pinned: map[fetch.Ref]bool{},
		pins:         source.NewKnownServers(fetch.NewExact(s.Fetcher.Fetcher)),
		commits:      source.NewKnownHosts(s.Store, credentials, s.Runtime.Git.CABundle),
		schemaFolder: filepath.Join(s.Runtime.Cache, "schemas"),
	}
	if err := os.MkdirAll(p.schemaFolder, 0o700); err != nil {
		return nil, fmt.Errorf("cache of schemas: %w", err)
	}
	if err := p.renderWithin(reviewRender); err != nil {
		return nil, err
	}
	if !r.Policy.IsZero() {
		// The trunk's fleet declares which other repositories the clone may fetch from, and who may sign charts; the
		// change's fleet cannot. After an error here, a rendering that needs a repository or a signature fails and
		// names it.
		var invalid fleet.Problems
		v, err := s.Trunks().Open(ctx, r.Policy)
		switch {
		case err == nil:
			p.trust = v.Trust()
			p.pins.Trust(v)
			p.commits.Trust(v)
			if r.Images {
				p.images = v.Fleet.Spec.Images.MustExist
			}
		case !errors.As(err, &invalid): // such as a missing file of keys: the change's own keys must not count instead
			p.trust = source.RefuseAll()
		}
		// A mistake in the policy is reported in the review, because the worker finds it too.
		p.schemas, _ = s.Schemas(ctx, r.Policy, r.Offline)
	}
	return p, nil
}

// close ends the limits of the review.
func (p *parent) close() { p.budget.Close() }

// renderWithin limits the time of all renderings of the review together.
func (p *parent) renderWithin(limit time.Duration) (err error) {
	p.budget = renderer.NewBudget(p.session.Renderer, limit)
	p.renderer, err = renderer.NewRemoteServer(p.budget, reviewContents)
	return err
}

// isLarge reports whether answers to a question can have many megabytes.
func isLarge(question string) bool {
	return question == askObjects || question == askArchive || question == askPolicy ||
		question == renderer.QuestionRender
}

// answer answers one question, and notes errors. Several goroutines call it.
func (p *parent) answer(ctx context.Context, name string, input []byte) ([]byte, error) {
	out, err := p.reply(ctx, name, input)
	if err != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.failed = cmp.Or(p.failed, err)
		p.unreached = p.unreached || errors.Is(err, fetch.ErrUnavailable) ||
			name == askObjects && errors.Is(err, gitstore.ErrNotFound) ||
			name == askCommit && !errors.Is(err, source.ErrUnasked)
	}
	return out, err
}

// explain adds the first error of an answer, with its type, to an error of the worker.
func (p *parent) explain(err error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed == nil {
		return err
	}
	return fmt.Errorf("%w (%w)", err, p.failed)
}

// reply answers one question: one case for each of the questions in job.go.
func (p *parent) reply(ctx context.Context, name string, input []byte) ([]byte, error) {
	if out, known, err := p.renderer.Answer(ctx, name, input); known {
		return out, err
	}
	switch name {
	case askObjects:
		return p.objects(ctx, input)
	case askList:
		var prefixes []string
		if err := json.Unmarshal(input, &prefixes); err != nil {
			return nil, err
		}
		refs, err := p.session.Branches.List(ctx, prefixes...)
		if err != nil {
			return nil, err
		}
		return json.Marshal(refs)
	case askFetch:
		var commits []gitstore.Hash
		if err := json.Unmarshal(input, &commits); err != nil {
			return nil, err
		}
		return nil, p.session.Branches.Fetch(ctx, commits...)
	case askPush:
		return p.push(ctx, input)
	case askArchive:
		var q archiveQuestion
		if err := json.Unmarshal(input, &q); err != nil {
			return nil, err
		}
		return p.session.Archives.Archive(ctx, q.Ref, q.Locked)
	case askPin:
		return p.pin(ctx, input)
	case askCommit:
		return p.commit(ctx, input)
	case askVerify:
		return nil, p.verify(ctx, input)
	case askSchema:
		return p.schema(ctx, input)
	case askImage:
		return p.image(ctx, input)
	case askPolicy:
		return ownpolicy.InWorker(ctx, p.session.Renderer, input)
	}
	return nil, fmt.Errorf("unknown question %.40q", name)
}

// reviewPins is the number of charts without a lock that one review may resolve.
const reviewPins = 200

// pin resolves an exact version of a chart that the change's sluice.lock lacks. It asks only servers from which the
// trunk takes charts: a change must not choose where a request goes.
func (p *parent) pin(ctx context.Context, input []byte) ([]byte, error) {
	var ref fetch.Ref
	if err := json.Unmarshal(input, &ref); err != nil {
		return nil, err
	}
	if err := ref.Check(); err != nil {
		return nil, err
	}
	p.mu.Lock()
	p.pinned[ref] = true
	many := len(p.pinned) > reviewPins
	p.mu.Unlock()
	if many {
		return nil, fmt.Errorf("the change uses more than %d charts that sluice.lock lacks", reviewPins)
	}
	locked, err := p.pins.Pin(ctx, ref)
	if err != nil {
		return nil, err
	}
	return json.Marshal(locked)
}

// commit fetches a commit of another repository that an object of the change names by its id. It asks only hosts from
// which the trunk takes content, and gives no credentials for repositories that the trunk does not name.
func (p *parent) commit(ctx context.Context, input []byte) ([]byte, error) {
	var c fleet.GitCommit
	if err := json.Unmarshal(input, &c); err != nil {
		return nil, err
	}
	return nil, p.commits.FetchCommit(ctx, c)
}

// verify requires a signature by one of the trunk's signers.
func (p *parent) verify(ctx context.Context, input []byte) error {
	var q verifyQuestion
	if err := json.Unmarshal(input, &q); err != nil {
		return err
	}
	signers, err := p.trust.Named(q.Signers)
	if err != nil {
		return err
	}
	return p.session.Archives.Verify(ctx, q.Ref, q.Locked, signers)
}

func (p *parent) objects(ctx context.Context, input []byte) ([]byte, error) {
	size := len(gitstore.Hash{})
	if len(input)%size != 0 || len(input)/size > objectsAtOnce {
		return nil, errors.New("invalid list of objects")
	}
	hashes := make([]gitstore.Hash, len(input)/size)
	for i := range hashes {
		copy(hashes[i][:], input[i*size:])
	}
	list, err := p.session.Store.ReadRaw(ctx, hashes, answerObjects)
	if err != nil {
		return nil, err
	}
	var out []byte
	for _, r := range list {
		if out, err = appendRaw(out, r); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// push moves the preview branch, and no other, to objects from the worker.
func (p *parent) push(ctx context.Context, input []byte) ([]byte, error) {
	_, head, rest, err := nextFrame(input)
	if err != nil {
		return nil, err
	}
	var moves []gitstore.Move
	if err := json.Unmarshal(head, &moves); err != nil {
		return nil, err
	}
	if p.preview == nil || len(moves) != 1 || moves[0].Branch != p.preview.Branch {
		return nil, errors.New("only the branch of the preview can be moved")
	}
	if len(input) > previewObjects {
		return nil, fmt.Errorf("the preview has more than %d MiB", previewObjects>>20)
	}
	w, err := p.session.Store.NewWriter()
	if err != nil {
		return nil, err
	}
	defer w.Close() //nolint:errcheck // objects that were not pushed are not needed
	for len(rest) > 0 {
		var r gitstore.Raw
		if r, rest, err = nextRaw(rest); err != nil {
			return nil, err
		}
		if _, err := w.AddRaw(r); err != nil {
			return nil, err
		}
	}
	results, err := p.session.Branches.Push(ctx, w, moves, gitstore.PushOptions{})
	if err != nil {
		return nil, err
	}
	return json.Marshal(results)
}

func (p *parent) schema(ctx context.Context, input []byte) ([]byte, error) {
	var q schemaQuestion
	if err := json.Unmarshal(input, &q); err != nil {
		return nil, err
	}
	if p.schemas == nil {
		return []byte(answerOffline), nil
	}
	folder, err := p.schemas.Schema(ctx, q.KubeVersion, q.APIVersion, q.Kind, q.Strict)
	switch {
	case errors.Is(err, policy.ErrNoSchema):
		return []byte(answerNoSchema), nil
	case errors.Is(err, policy.ErrSchemasOffline):
		return []byte(answerOffline), nil
	}
	return []byte(folder), err
}
