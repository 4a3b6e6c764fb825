package artifacts

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/renderer/fetch"
	"github.com/sluice-gitops/sluice/rollout"
)

// Status is what a run did with the artifact of a cluster.
type Status string

// The statuses.
const (
	Pushed  Status = "pushed"  // the registry has the artifact now, and the moving tag leads to it
	Present Status = "present" // it had, and did
	Held    Status = "held"    // the branch has what Sluice does not publish: nothing was pushed
	Failed  Status = "failed"  // the registry does not have it
)

// Artifact is the artifact of a cluster after a run.
type Artifact struct {
	Cluster    string `json:"cluster"`
	Repository string `json:"repository"`
	Commit     string `json:"commit"` // of the cluster branch
	Digest     string `json:"digest,omitempty"`
	Status     Status `json:"status"`
	Reason     string `json:"reason,omitempty"`
}

// Result is the result of a run.
type Result struct {
	// Artifacts of the clusters that were not known to be published, by name.
	Artifacts []Artifact `json:"artifacts"`
	// Unfinished says why the run ended early; "" if it did not. The clusters that it did not come to are not in the list.
	Unfinished string `json:"unfinished,omitempty"`
	// Waiting is the number of clusters that are due and that the run did not come to.
	Waiting int `json:"waiting,omitempty"`
}

// OK reports whether the registry has what the branches have, apart from what is held.
func (r *Result) OK() bool {
	return r.Unfinished == "" && !slices.ContainsFunc(r.Artifacts, func(a Artifact) bool { return a.Status == Failed })
}

// Summary describes the result in one line, such as "artifacts: 2 pushed, 1 failed"; "" if nothing was due.
func (r *Result) Summary() string {
	count := map[Status]int{}
	for _, a := range r.Artifacts {
		count[a.Status]++
	}
	var parts []string
	for _, s := range []Status{Pushed, Present, Held, Failed} {
		if count[s] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", count[s], s))
		}
	}
	if r.Waiting > 0 {
		parts = append(parts, fmt.Sprintf("%d waiting", r.Waiting))
	}
	if r.Unfinished != "" {
		parts = append(parts, r.Unfinished)
	}
	if len(parts) == 0 {
		return ""
	}
	return "artifacts: " + strings.Join(parts, ", ")
}

// Options of a run.
type Options struct {
	// Clusters that the run looks at; none: all.
	Clusters []string
	// Rebuild trusts neither the list nor tags: the run makes every artifact and compares it with the registry's.
	Rebuild bool
}

// jobs is how many artifacts are pushed at the same time. The registry's client bounds requests, too.
const jobs = 8

// listLimit bounds the time for writing the list after an interruption.
const listLimit = 10 * time.Second

// rounds is how often a run looks for branches that moved while it pushed. What moves later is for the next run.
const rounds = 4

// Publish pushes the artifacts that the registry lacks, and moves their tags to where the branches are. It asks the
// registry once if all is published, and otherwise about the clusters whose branches moved since. A registry that does
// not answer ends the run, which is no error: the result says so. Publishing again does no harm, also beside another
// run.
func Publish(ctx context.Context, c Config, o Options) (*Result, error) {
	p := &publisher{Config: c, options: o, result: &Result{Artifacts: []Artifact{}}, done: map[string]Artifact{}}
	err := p.run(ctx)
	if ofRegistry(err) && ctx.Err() == nil {
		p.result.Unfinished, err = err.Error(), nil
	}
	for _, name := range slices.Sorted(maps.Keys(p.done)) {
		p.result.Artifacts = append(p.result.Artifacts, p.done[name])
	}
	return p.result, err
}

// ofRegistry reports whether an error is the registry's. Others are Git's.
func ofRegistry(err error) bool {
	for _, kind := range []error{fetch.ErrUnavailable, fetch.ErrDenied, fetch.ErrInvalid, fetch.ErrNotFound, fetch.ErrDigest} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}

// publisher is one call of Publish.
type publisher struct {
	Config
	options Options
	result  *Result
	refs    map[string]gitstore.Hash
	listed  list
	waves   map[string]string // second tags of clusters; none without spec.output.oci.waveTags

	mu     sync.Mutex
	done   map[string]Artifact // by cluster
	denied int                 // pushes that were denied
}

// key names a cluster in the list: with its second tag, so that a cluster that changes its wave gets the tag of the new
// one.
func (p *publisher) key(cluster string) string {
	if tag := p.waves[cluster]; tag != "" {
		return cluster + "=" + tag
	}
	return cluster
}

func (p *publisher) terms() terms {
	out := terms{Tag: p.Fleet.ArtifactTag(), Waves: p.Fleet.Spec.Output.OCI.WaveTags}
	if p.Keys != nil {
		out.Key = p.Keys.trusted.Digest()
	}
	return out
}

func (p *publisher) run(ctx context.Context) error {
	if err := p.readRefs(ctx); err != nil {
		return err
	}
	registry, err := p.Registries(p.Fleet.Artifacts())
	if err != nil {
		return err
	}
	if p.waves, err = waveTags(p.Fleet); err != nil {
		return err
	}
	if p.listed, err = readList(ctx, registry, p.expected(), p.terms()); err != nil {
		return err
	}
	before := maps.Clone(p.listed)
	failed := p.pushDue(ctx)
	if maps.Equal(before, p.listed) {
		return failed
	}
	if ctx.Err() != nil { // the list of another run must not hide a tag that this one moved
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), listLimit)
		defer cancel()
	}
	known := map[string]bool{}
	for _, c := range p.Fleet.Clusters {
		known[p.key(c.Name)] = true
	}
	maps.DeleteFunc(p.listed, func(key string, _ gitstore.Hash) bool { return !known[key] }) // clusters that are gone
	if err := p.listed.write(ctx, registry, p.terms()); err != nil {
		return errors.Join(failed, fmt.Errorf("the list of published commits: %w", err))
	}
	return failed
}

// pushDue pushes what is due until the branches no longer move.
func (p *publisher) pushDue(ctx context.Context) error {
	for range rounds {
		due := p.due()
		if len(due) == 0 {
			return nil
		}
		if p.Keys != nil && p.Keys.signer == nil {
			p.result.Unfinished, p.result.Waiting = p.Keys.missing, len(due)
			return nil
		}
		admitted, err := p.admit(ctx, due)
		if err != nil {
			return err
		}
		if err := p.pushAll(ctx, admitted); err != nil {
			p.result.Waiting = len(p.due())
			return err
		}
		gitstore.Relist(p.Hydrator.Store)
		if err := p.readRefs(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (p *publisher) readRefs(ctx context.Context) error {
	var err error
	p.refs, err = p.Hydrator.Branches.List(ctx, promote.BranchPrefixes(p.Fleet)...)
	return err
}

// tips returns where the branches of all clusters are.
func (p *publisher) tips() list {
	out := list{}
	for _, c := range p.Fleet.Clusters {
		if tip := p.refs[p.Fleet.ClusterBranch(c)]; !tip.IsZero() && !c.Retired() {
			out[c.Name] = tip
		}
	}
	return out
}

// expected returns the list if everything is published.
func (p *publisher) expected() list {
	out := list{}
	for name, tip := range p.tips() {
		out[p.key(name)] = tip
	}
	return out
}

// due returns the clusters of the run whose branches are elsewhere than the list and this run say.
func (p *publisher) due() []*fleet.Cluster {
	var out []*fleet.Cluster
	tips := p.tips()
	for _, c := range p.Fleet.Clusters {
		tip, ok := tips[c.Name]
		have, looked := p.done[c.Name]
		switch {
		case !ok || len(p.options.Clusters) > 0 && !slices.Contains(p.options.Clusters, c.Name):
		case looked && have.Commit == tip.String():
		case !looked && !p.options.Rebuild && p.listed[p.key(c.Name)] == tip:
		default:
			out = append(out, c)
		}
	}
	return out
}

// pushAll pushes artifacts, some at the same time. A registry that does not answer ends it.
func (p *publisher) pushAll(ctx context.Context, list []admitted) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(jobs)
	var progress sync.Mutex
	finished := 0
	for _, a := range list {
		group.Go(func() error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			err := p.push(ctx, a)
			progress.Lock()
			defer progress.Unlock()
			finished++
			p.Hydrator.Progress("push artifacts", finished, len(list))
			return err
		})
	}
	return group.Wait()
}

// push pushes the artifact of one cluster and notes what became of it. It returns the errors that end the run.
func (p *publisher) push(ctx context.Context, a admitted) error {
	out := Artifact{
		Cluster: a.cluster.Name, Repository: p.Fleet.Artifact(a.cluster), Commit: a.commit.Hash.String(), Status: Pushed,
	}
	registry, err := p.Registries(out.Repository)
	if err == nil {
		out.Digest, out.Status, err = p.bring(ctx, registry, a)
	}
	if err != nil {
		if ctx.Err() != nil || p.ends(err) {
			return err
		}
		out.Status, out.Reason = Failed, err.Error()
	}
	p.note(out, a.commit.Hash)
	return nil
}

// ends reports whether an error is about the registry as a whole, so that other clusters need not be tried: it does not
// answer, or it denies access to everything.
func (p *publisher) ends(err error) bool {
	if !errors.Is(err, fetch.ErrDenied) {
		return errors.Is(err, fetch.ErrUnavailable)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.denied++
	allowed := false
	for _, a := range p.done {
		allowed = allowed || a.Status == Pushed || a.Status == Present
	}
	return p.denied >= jobs && !allowed
}

func (p *publisher) note(a Artifact, commit gitstore.Hash) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if before, ok := p.done[a.Cluster]; ok && before.Status == Pushed && a.Status == Present {
		a.Status = Pushed
	}
	p.done[a.Cluster] = a
	if a.Status == Pushed || a.Status == Present {
		p.listed[p.key(a.Cluster)] = commit
	}
}

// forget takes a cluster from the list of what is published.
func (p *publisher) forget(c *fleet.Cluster) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.listed, p.key(c.Name))
}

// bring makes a registry have the artifact of a commit, and the moving tag lead to it.
func (p *publisher) bring(ctx context.Context, r Registry, a admitted) (string, Status, error) {
	commitTag := a.commit.Hash.String()
	tags := p.moving(a.cluster)
	has, err := resolve(ctx, r, commitTag)
	if err != nil {
		return "", "", err
	}
	leads := has // what all of the tags lead to
	for _, tag := range tags {
		if leads == "" {
			break
		}
		at, err := resolve(ctx, r, tag)
		if err != nil {
			return "", "", err
		}
		if at != has {
			leads = ""
		}
	}
	if has != "" && leads == has && !p.options.Rebuild {
		signed, err := p.signed(ctx, r, has)
		if signed || err != nil {
			return has, Present, err
		}
	}
	made, err := build(ctx, p.Hydrator.Store, a.subject(p.Fleet, p.Hydrator.Branches.String()))
	if err != nil {
		return "", "", err
	}
	digest := made.manifest.Digest.String()
	signed, err := p.signed(ctx, r, digest)
	if err != nil {
		return "", "", err
	}
	if digest == has && digest == leads && signed {
		return digest, Present, nil
	}
	if p.Keys != nil { // before it has a tag, because clusters refuse what is not signed
		if err := made.push(ctx, r, digest); err != nil {
			return "", "", err
		}
		if err := p.Keys.sign(ctx, r, p.Fleet.Artifact(a.cluster), made.manifest); err != nil {
			return "", "", err
		}
	}
	if digest != has {
		if err := made.push(ctx, r, commitTag); err != nil {
			return "", "", err
		}
	}
	p.forget(a.cluster) // until it is known where the tag leads
	for _, tag := range tags {
		if err := r.Tag(ctx, made.manifest.Descriptor, made.manifest.data, tag); err != nil {
			return "", "", err
		}
	}
	return digest, Pushed, nil
}

// moving returns the tags that move with the branch of a cluster. The last one is the one that clusters read.
func (p *publisher) moving(c *fleet.Cluster) []string {
	main := p.Fleet.ArtifactTag()
	if tag := p.waves[c.Name]; tag != "" {
		return []string{tag, main}
	}
	return []string{main}
}

// waveTags returns the second tags of the artifacts of a fleet, by cluster; none if they have none.
func waveTags(f *fleet.Fleet) (map[string]string, error) {
	out := map[string]string{}
	for _, e := range f.Spec.Environments {
		if f.WaveTag(e.Name, "") == "" {
			continue
		}
		var members []rollout.Cluster
		for _, c := range f.ClustersOf(e.Name) {
			members = append(members, rollout.Cluster{Name: c.Name, Labels: c.Labels, State: c.State})
			out[c.Name] = f.WaveTag(e.Name, "")
		}
		if len(e.Promotion.Waves) == 0 {
			continue
		}
		waves, err := rollout.Waves(e, members)
		if err != nil {
			return nil, err
		}
		for _, w := range waves {
			for _, name := range w.Clusters() {
				out[name] = f.WaveTag(e.Name, w.Name)
			}
		}
	}
	return out, nil
}

// signed reports whether a registry has what the fleet wants to be signed: anything without keys.
func (p *publisher) signed(ctx context.Context, r Registry, digest string) (bool, error) {
	if p.Keys == nil {
		return true, nil
	}
	_, data, err := r.Manifest(ctx, digest)
	switch {
	case errors.Is(err, fetch.ErrNotFound), errors.Is(err, fetch.ErrDenied): // as in resolve
		return false, nil
	case err != nil:
		return false, err
	}
	return p.Keys.signed(ctx, r, data)
}

// resolve returns the digest behind a tag; "" if there is none.
func resolve(ctx context.Context, r Registry, tag string) (string, error) {
	d, err := r.Resolve(ctx, tag)
	if errors.Is(err, fetch.ErrNotFound) || errors.Is(err, fetch.ErrDenied) { // many registries deny what does not exist
		return "", nil
	}
	return d.Digest.String(), err
}
