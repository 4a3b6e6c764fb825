package promote

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// The version and kind of a record.
const (
	RecordVersion = "sluice.dev/v1alpha1"
	RecordKind    = "PromotionRecord"
)

const (
	maxRecord    = 4 << 20
	maxHandled   = 200
	maxApprovals = 100
	maxFreezes   = 200
	maxRan       = 50
	maxHolds     = 500
)

// RecordPath is where a caller keeps an environment's record in the state branch.
func RecordPath(environment string) string { return "environments/" + environment + ".yaml" }

// StateBranch is the branch that holds the records.
const StateBranch = "sluice/state"

// Record is what Sluice remembers about an environment's promotions. What the environment runs is not in it: that is read
// from its branch. Without a record, promotions go on from what the branches hold; only times begin anew.
type Record struct {
	APIVersion  string                      `yaml:"apiVersion"`
	Kind        string                      `yaml:"kind"`
	Environment string                      `yaml:"environment"`
	Request     *Request                    `yaml:"request,omitempty"`
	Approvals   []Approval                  `yaml:"approvals,omitempty"`
	Freezes     []Freeze                    `yaml:"freezes,omitempty"`
	Halt        *Halt                       `yaml:"halt,omitempty"`
	Resumed     *Resumed                    `yaml:"resumed,omitempty"` // who lifted the last halt
	Rollback    *Rollback                   `yaml:"rollback,omitempty"`
	Holds       []Hold                      `yaml:"holds,omitempty"`
	Progress    *Progress                   `yaml:"progress,omitempty"`
	Before      map[string]*UpstreamHistory `yaml:"before,omitempty"`
	Ran         []PastState                 `yaml:"ran,omitempty"`     // oldest first
	Handled     []string                    `yaml:"handled,omitempty"` // ids of events, so that one may arrive twice
	Offered     *Offered                    `yaml:"offered,omitempty"`
	Opened      *Offered                    `yaml:"opened,omitempty"`   // the merge request that was open at the last look
	Declined    *Offered                    `yaml:"declined,omitempty"` // the merge request that a person closed
	Branches    []string                    `yaml:"branches,omitempty"` // clusters that had a branch at the last look
	// Failed was written by earlier versions. DecodeRecord turns it into holds.
	Failed []failedSource `yaml:"failed,omitempty"`
}

// Offered is a state that people are asked to agree to, and since when.
type Offered struct {
	Source Source    `yaml:"source"`
	Tree   string    `yaml:"tree"`
	At     time.Time `yaml:"at"`
}

// Knows reports whether a tree is the one that was offered last, or the one that the environment had at the last look. Such
// a tree is Sluice's own, whoever committed it.
func (r Record) Knows(tree string) bool {
	return r.Offered.Is(tree) || len(r.Ran) > 0 && r.Ran[len(r.Ran)-1].Tree == tree
}

// Is reports whether a tree is the one that was offered.
func (o *Offered) Is(tree string) bool { return o != nil && o.Tree == tree }

// Request is a promotion that somebody asked for.
type Request struct {
	Source Source    `yaml:"source"`
	Apps   []string  `yaml:"apps,omitempty"`
	Now    bool      `yaml:"now,omitempty"`
	Reason string    `yaml:"reason,omitempty"`
	By     string    `yaml:"by"`
	At     time.Time `yaml:"at"`
	Said   time.Time `yaml:"said,omitempty"` // when the person wrote it, if that was earlier than At
}

// Approval is one person's agreement to one tree.
type Approval struct {
	By    string    `yaml:"by"`
	Teams []string  `yaml:"teams,omitempty"`
	Tree  string    `yaml:"tree"`
	At    time.Time `yaml:"at"`
}

// Halt stops an environment where it is.
type Halt struct {
	By     string    `yaml:"by,omitempty"` // empty if Sluice halted it because of its health
	Reason string    `yaml:"reason"`
	At     time.Time `yaml:"at"`
}

// Resumed says who lifted a halt, and when.
type Resumed struct {
	By string    `yaml:"by"`
	At time.Time `yaml:"at"`
}

// Rollback is an earlier state that a person, or a failure, asks for, until it is done.
type Rollback struct {
	To       Source `yaml:"to"`
	Tree     string `yaml:"tree"` // of the environment branch at that time
	From     Source `yaml:"from"`
	FromTree string `yaml:"fromTree,omitempty"` // of the environment branch when it goes back
	Wave     string `yaml:"wave,omitempty"`     // whose clusters Clusters are
	// Clusters are those that go back; none means all.
	Clusters []string `yaml:"clusters,omitempty"`
	// Apps are those that go back; none means all.
	Apps []string `yaml:"apps,omitempty"`
	// Stopped are other clusters, which the rollout under way had not reached. They keep what they run.
	Stopped []string  `yaml:"stopped,omitempty"`
	Reason  string    `yaml:"reason,omitempty"`
	By      string    `yaml:"by,omitempty"`
	At      time.Time `yaml:"at"`
}

// whole reports whether the rollback restores the whole environment.
func (r Rollback) whole() bool { return len(r.Clusters)+len(r.Apps) == 0 }

// Progress says where a rollout stands, from the move of the environment branch on.
type Progress struct {
	Source   Source     `yaml:"source"`
	Tree     string     `yaml:"tree"` // of the environment branch; another tree begins a new rollout
	Now      bool       `yaml:"now,omitempty"`
	NowBy    string     `yaml:"nowBy,omitempty"` // who expedited the rollout while it was under way, and why
	NowWhy   string     `yaml:"nowWhy,omitempty"`
	Rollback bool       `yaml:"rollback,omitempty"`
	Started  time.Time  `yaml:"started"`
	Changed  []string   `yaml:"changed,omitempty"` // clusters whose branches had to move
	Current  int        `yaml:"current,omitempty"` // how many of them have moved
	LastMove time.Time  `yaml:"lastMove,omitempty"`
	Waves    []WaveTime `yaml:"waves,omitempty"`
	Done     time.Time  `yaml:"done,omitempty"`
	CatchUp  []string   `yaml:"catchUp,omitempty"` // clusters that were frozen and behind when the rollout was complete
}

// underWay reports whether clusters may still have to move, or to prove that they are healthy.
func (p *Progress) underWay() bool { return p != nil && p.Done.IsZero() }

// WaveTime says when all clusters of a wave had moved, and when they were first seen healthy after that.
type WaveTime struct {
	Name    string    `yaml:"name"`
	Moved   time.Time `yaml:"moved"`
	Healthy time.Time `yaml:"healthy,omitempty"`
}

// UpstreamHistory is what was seen of an upstream environment: one that promotions come from.
type UpstreamHistory struct {
	Ran []PastState `yaml:"ran"` // oldest first
	Red bool        `yaml:"red,omitempty"`
	// LastRed is when the environment was last seen to turn red, or to stop being red.
	LastRed time.Time `yaml:"lastRed,omitempty"`
}

// PastState is a state that an environment had, from a time on.
type PastState struct {
	Source  Source    `yaml:"source"`
	Tree    string    `yaml:"tree,omitempty"`
	At      time.Time `yaml:"at"`
	Healthy time.Time `yaml:"healthy,omitempty"` // when it was first seen healthy
}

// failedSource is a failure as earlier versions recorded it.
type failedSource struct {
	Source Source    `yaml:"source"`
	Reason string    `yaml:"reason"`
	At     time.Time `yaml:"at"`
}

// NewRecord is the record of an environment that has none.
func NewRecord(environment string) Record {
	return Record{APIVersion: RecordVersion, Kind: RecordKind, Environment: environment}
}

// DecodeRecord decodes a record strictly. Empty data is a new record: a caller must pass it only if the file does not exist.
func DecodeRecord(environment string, data []byte) (Record, error) {
	fail := func(err error) (Record, error) {
		return Record{}, fmt.Errorf("%s on branch %s: %w: correct the file on that branch, or remove it to start without a record", RecordPath(environment), StateBranch, err)
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return NewRecord(environment), nil
	}
	if err := manifest.Check(data, manifest.Budget{Bytes: maxRecord, Nodes: 400_000, Depth: 20, Aliases: 0}); err != nil {
		return fail(err)
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	var r Record
	if err := dec.Decode(&r); err != nil {
		return fail(err)
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return fail(errors.New("the file has a second document"))
	}
	switch {
	case r.APIVersion != RecordVersion || r.Kind != RecordKind:
		return fail(fmt.Errorf("%q %q is not a %s of %s; a newer Sluice may have written it", r.APIVersion, r.Kind, RecordKind, RecordVersion))
	case r.Environment != environment:
		return fail(fmt.Errorf("it is the record of environment %q", r.Environment))
	}
	if err := r.validate(); err != nil {
		return fail(err)
	}
	for _, f := range r.Failed {
		r.Holds = append(r.Holds, Hold{Cause: CauseFailed, Whole: true, Source: f.Source, Reason: f.Reason, Since: f.At})
	}
	r.Failed = nil
	return r.bounded(), nil
}

// validate refuses entries that no version writes, and that would wedge or mislead a decision.
func (r Record) validate() error {
	for name, w := range r.Before {
		if w == nil {
			return fmt.Errorf("before.%s is empty", name)
		}
	}
	for i, h := range r.Holds {
		if err := h.validate(); err != nil {
			return fmt.Errorf("holds[%d]: %w", i, err)
		}
	}
	if b := r.Rollback; b != nil && b.Tree == "" {
		return errors.New("rollback names no tree")
	}
	if q := r.Request; q != nil {
		if err := q.Source.Validate(); err != nil {
			return fmt.Errorf("request: %w", err)
		}
	}
	return nil
}

// Encode is the record as YAML; equal records are equal bytes.
func (r Record) Encode() ([]byte, error) {
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(r); err != nil {
		return nil, fmt.Errorf("record of %s: %w", r.Environment, err)
	}
	if err := enc.Close(); err != nil {
		return nil, fmt.Errorf("record of %s: %w", r.Environment, err)
	}
	return b.Bytes(), nil
}

// clone shares nothing that Apply changes.
func (r Record) clone() Record {
	r.Approvals, r.Freezes = slices.Clone(r.Approvals), slices.Clone(r.Freezes)
	r.Ran, r.Holds, r.Handled = slices.Clone(r.Ran), slices.Clone(r.Holds), slices.Clone(r.Handled)
	if r.Progress != nil {
		p := *r.Progress
		p.Waves = slices.Clone(p.Waves)
		r.Progress = &p
	}
	r.Before = maps.Clone(r.Before)
	for name, w := range r.Before {
		c := *w
		c.Ran = slices.Clone(c.Ran)
		r.Before[name] = &c
	}
	return r
}

// bounded drops the oldest entries of lists that grow with time.
func (r Record) bounded() Record {
	r.Handled, r.Approvals = last(r.Handled, maxHandled), last(r.Approvals, maxApprovals)
	r.Ran, r.Holds = last(r.Ran, maxRan), last(r.Holds, maxHolds)
	for _, w := range r.Before {
		w.Ran = last(w.Ran, maxRan)
	}
	return r
}

func last[T any](s []T, most int) []T { return s[max(0, len(s)-most):] }
