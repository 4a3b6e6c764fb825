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
	maxFailed    = 20
)

// RecordPath is where a caller keeps an environment's record in the state branch.
func RecordPath(environment string) string { return "environments/" + environment + ".yaml" }

// StateBranch is the branch that holds the records.
const StateBranch = "sluice/state"

// Record is all that is remembered about an environment's promotions. What the environment runs is not in it: that is
// read from its branch. Without a record all goes on from what the branches hold; only times begin anew.
type Record struct {
	APIVersion  string            `yaml:"apiVersion"`
	Kind        string            `yaml:"kind"`
	Environment string            `yaml:"environment"`
	Request     *Request          `yaml:"request,omitempty"`
	Approvals   []Approval        `yaml:"approvals,omitempty"`
	Freezes     []Freeze          `yaml:"freezes,omitempty"`
	Halt        *Halt             `yaml:"halt,omitempty"`
	Rollback    *Rollback         `yaml:"rollback,omitempty"`
	Progress    *Progress         `yaml:"progress,omitempty"`
	Before      map[string]*Watch `yaml:"before,omitempty"`
	Ran         []Ran             `yaml:"ran,omitempty"` // oldest first
	Failed      []Failed          `yaml:"failed,omitempty"`
	Handled     []string          `yaml:"handled,omitempty"` // ids of events, so that one may come twice
	Offered     *Offered          `yaml:"offered,omitempty"`
	Branches    []string          `yaml:"branches,omitempty"` // clusters that had a branch at the last look
}

// Offered is what people were last asked to agree to, and since when.
type Offered struct {
	Source Source    `yaml:"source"`
	Tree   string    `yaml:"tree"`
	At     time.Time `yaml:"at"`
}

// Knows says that a tree is what was offered last, or what the environment had at the last look: it is Sluice's, whoever committed it.
func (r Record) Knows(tree string) bool {
	return r.Offered.Is(tree) || len(r.Ran) > 0 && r.Ran[len(r.Ran)-1].Tree == tree
}

// Is says whether a tree is the one that was offered.
func (o *Offered) Is(tree string) bool { return o != nil && o.Tree == tree }

// Request is a promotion that somebody asked for.
type Request struct {
	Source Source    `yaml:"source"`
	Apps   []string  `yaml:"apps,omitempty"`
	Now    bool      `yaml:"now,omitempty"`
	Reason string    `yaml:"reason,omitempty"`
	By     string    `yaml:"by"`
	At     time.Time `yaml:"at"`
	Said   time.Time `yaml:"said,omitempty"` // when it was written, if that was earlier
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
	By     string    `yaml:"by,omitempty"` // "" if health did it
	Reason string    `yaml:"reason"`
	At     time.Time `yaml:"at"`
}

// Rollback is an earlier state that somebody, or a failure, asks for.
type Rollback struct {
	To       Source    `yaml:"to"`
	Tree     string    `yaml:"tree"` // of the environment branch at that time
	From     Source    `yaml:"from"`
	Clusters []string  `yaml:"clusters,omitempty"`
	Apps     []string  `yaml:"apps,omitempty"`
	Reason   string    `yaml:"reason,omitempty"`
	By       string    `yaml:"by,omitempty"`
	At       time.Time `yaml:"at"`
}

// whole says that the rollback brings back the whole environment.
func (r Rollback) whole() bool { return len(r.Clusters)+len(r.Apps) == 0 }

// Progress is where a promotion stands, from the move of the environment branch on.
type Progress struct {
	Source   Source     `yaml:"source"`
	Tree     string     `yaml:"tree"` // of the environment branch; another one begins anew
	Now      bool       `yaml:"now,omitempty"`
	NowBy    string     `yaml:"nowBy,omitempty"` // who asked to hurry when it was on its way, and why
	NowWhy   string     `yaml:"nowWhy,omitempty"`
	Rollback bool       `yaml:"rollback,omitempty"`
	Started  time.Time  `yaml:"started"`
	Changed  []string   `yaml:"changed,omitempty"` // clusters whose branches had to move
	Current  int        `yaml:"current,omitempty"` // how many of them have moved
	LastMove time.Time  `yaml:"lastMove,omitempty"`
	Waves    []WaveTime `yaml:"waves,omitempty"`
	Done     time.Time  `yaml:"done,omitempty"`
}

// WaveTime says when a wave had moved, and when it was first seen healthy after that.
type WaveTime struct {
	Name    string    `yaml:"name"`
	Moved   time.Time `yaml:"moved"`
	Healthy time.Time `yaml:"healthy,omitempty"`
}

// Watch is what an environment has seen of one before it.
type Watch struct {
	Ran []Ran `yaml:"ran"` // oldest first
	Red bool  `yaml:"red,omitempty"`
	// LastRed is when it was last seen red, or stopped to be.
	LastRed time.Time `yaml:"lastRed,omitempty"`
}

// Ran is a state that an environment had, from a time on.
type Ran struct {
	Source  Source    `yaml:"source"`
	Tree    string    `yaml:"tree,omitempty"`
	At      time.Time `yaml:"at"`
	Healthy time.Time `yaml:"healthy,omitempty"` // when it was first seen healthy
}

// Failed is a state that is not tried again unless somebody asks for it.
type Failed struct {
	Source Source    `yaml:"source"`
	Reason string    `yaml:"reason"`
	At     time.Time `yaml:"at"`
}

// NewRecord is the record of an environment about which nothing is remembered.
func NewRecord(environment string) Record {
	return Record{APIVersion: RecordVersion, Kind: RecordKind, Environment: environment}
}

// DecodeRecord reads a record, strictly. Empty data is a new record.
func DecodeRecord(environment string, data []byte) (Record, error) {
	fail := func(err error) (Record, error) {
		return Record{}, fmt.Errorf("%s on branch %s: %w: correct it there, or remove the file to begin anew", RecordPath(environment), StateBranch, err)
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
		return fail(errors.New("there is a second document"))
	}
	switch {
	case r.APIVersion != RecordVersion || r.Kind != RecordKind:
		return fail(fmt.Errorf("%q %q is no %s of %s; a newer Sluice may have written it", r.APIVersion, r.Kind, RecordKind, RecordVersion))
	case r.Environment != environment:
		return fail(fmt.Errorf("it is the record of environment %q", r.Environment))
	}
	for name, w := range r.Before {
		if w == nil {
			return fail(fmt.Errorf("before.%s is empty", name))
		}
	}
	return r.bounded(), nil
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
	r.Ran, r.Failed, r.Handled = slices.Clone(r.Ran), slices.Clone(r.Failed), slices.Clone(r.Handled)
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

// bounded forgets the oldest of what grows with time.
func (r Record) bounded() Record {
	r.Handled, r.Approvals = last(r.Handled, maxHandled), last(r.Approvals, maxApprovals)
	r.Ran, r.Failed = last(r.Ran, maxRan), last(r.Failed, maxFailed)
	for _, w := range r.Before {
		w.Ran = last(w.Ran, maxRan)
	}
	return r
}

func last[T any](s []T, most int) []T { return s[max(0, len(s)-most):] }
