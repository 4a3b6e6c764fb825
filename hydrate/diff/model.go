// Package diff compares objects, not text: what was added, changed, removed or renamed between two renderings, in fields with
// paths, grouped over the clusters on which it is the same change. It is pure. Objects reach it with their secrets masked
// (Mask), and nothing it gives out holds more than they do.
package diff

import (
	"strings"

	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// Target is one app on one cluster, before and after. Objects of equal Key are equal and are compared once for the fleet.
type Target struct {
	App, Cluster, Environment string
	Facts                     []Fact   // what the registry says of the cluster and the app's files refer to
	Before, After             []Object // only objects that may differ; what is the same on both sides may be left out
	Unchanged                 int      // objects that are left out
}

// Fact is a reference and its value for a cluster: a value that the registry proves to come from there splits no group.
type Fact struct {
	Reference string // cluster.vars.domain
	Value     string
}

// Object is one object with a name for its content.
type Object struct {
	Key    string // equal keys, equal objects
	Object manifest.Object
}

// Withheld is a target that could not be rendered: nothing is said of its objects.
type Withheld struct {
	App         string `json:"app"`
	Cluster     string `json:"cluster"`
	Environment string `json:"environment"`
	Message     string `json:"message"`
	Before      bool   `json:"before,omitempty"` // the base could not be rendered; the head can
}

// ChangeSet is what changes between two renderings.
type ChangeSet struct {
	Groups   []Group    `json:"groups"`   // by risk, then by reach
	Apps     []App      `json:"apps"`     // in the order of their first group
	Withheld []Withheld `json:"withheld"` // by app and cluster
	Compared int        `json:"compared"` // targets that were looked at
	Totals   Counts     `json:"totals"`
}

// Empty says that no object changes and nothing was withheld.
func (c *ChangeSet) Empty() bool { return len(c.Groups) == 0 && len(c.Withheld) == 0 }

// Counts are numbers of objects, each counted on every cluster.
type Counts struct {
	Added     int `json:"added"`
	Changed   int `json:"changed"` // renamed ones too
	Removed   int `json:"removed"`
	Noise     int `json:"noise"`     // objects of which only noise changes; not among Changed
	Workloads int `json:"workloads"` // workloads whose pods are replaced
}

// Add adds another count, n times.
func (c *Counts) Add(o Counts, n int) {
	c.Added += n * o.Added
	c.Changed += n * o.Changed
	c.Removed += n * o.Removed
	c.Noise += n * o.Noise
	c.Workloads += n * o.Workloads
}

// App sums up what changes for one app.
type App struct {
	Name     string   `json:"app"`
	Clusters int      `json:"clusters"` // on which something changes
	Groups   int      `json:"groups"`
	Counts   Counts   `json:"counts"`
	Risk     Risk     `json:"risk"`
	Summary  string   `json:"summary"` // one line: what a reader wants to know first
	Where    []Reach  `json:"where"`
	Withheld int      `json:"withheld,omitempty"` // targets
	Images   []Image  `json:"images,omitempty"`
	Effects  []Effect `json:"effects,omitempty"` // the gravest kinds, each once
}

// Group is one change of an app that is the same on all its clusters.
type Group struct {
	ID       string         `json:"id"` // names the change: equal changes have equal ids in every report
	App      string         `json:"app"`
	Clusters []string       `json:"clusters"` // by name
	Where    []Reach        `json:"where"`
	Objects  []ObjectChange `json:"objects"` // by risk, then by identity
	Counts   Counts         `json:"counts"`  // on one cluster
	Risk     Risk           `json:"risk"`
	Varies   []string       `json:"varies,omitempty"` // references whose values differ between the clusters; Example's are shown
	Example  string         `json:"example"`          // the cluster whose values are shown
	Summary  string         `json:"summary"`
}

// Reach says how many clusters of an environment are meant. All of them: `prod/*`.
type Reach struct {
	Environment string   `json:"environment"`
	Pattern     string   `json:"pattern"` // prod/*, prod/eu-*, prod/eu-1a
	Clusters    int      `json:"clusters"`
	Names       []string `json:"-"`
}

// Verb says what happens to an object.
type Verb string

// The verbs.
const (
	Added   Verb = "added"
	Changed Verb = "changed"
	Removed Verb = "removed"
	Renamed Verb = "renamed" // and perhaps changed too
)

// ObjectChange is what happens to one object.
type ObjectChange struct {
	Verb       Verb              `json:"verb"`
	ID         manifest.Identity `json:"id"`
	OldID      manifest.Identity `json:"oldId,omitzero"` // of a renamed object
	APIVersion string            `json:"apiVersion"`
	Fields     []FieldChange     `json:"fields,omitempty"` // of a changed or renamed object, by path
	Noise      []FieldChange     `json:"noise,omitempty"`  // labels of versions, checksums: counted, not shown
	Effects    []Effect          `json:"effects,omitempty"`
	Images     []Image           `json:"images,omitempty"`
	Risk       Risk              `json:"risk"`
	Hunks      []Hunk            `json:"hunks,omitempty"` // canonical YAML, noise left out; of added and removed objects the whole
	Lines      int               `json:"lines"`           // in Hunks
	Rolls      bool              `json:"rolls,omitempty"` // the pods are replaced
}

// OnlyNoise says that nothing but noise changes.
func (o *ObjectChange) OnlyNoise() bool { return o.Verb == Changed && len(o.Fields) == 0 }

// Title names the object: `Deployment shop/web`.
func (o *ObjectChange) Title() string { return Title(o.ID) }

// Title names an object without its group: `Deployment shop/web`.
func Title(id manifest.Identity) string {
	if id.Namespace == "" {
		return id.Kind + " " + id.Name
	}
	return id.Kind + " " + id.Namespace + "/" + id.Name
}

// FieldChange is one field: a scalar, or a whole mapping or list that is there on one side alone.
type FieldChange struct {
	Path string `json:"path"` // spec.template.spec.containers[name=web].image
	Old  any    `json:"old"`
	New  any    `json:"new"`
	Had  bool   `json:"had"` // it was there before
	Has  bool   `json:"has"` // it is there now
}

// Hunk is a piece of a unified diff. Lines begin with ' ', '-' or '+'.
type Hunk struct {
	Path     string   `json:"path,omitempty"` // of the mapping that the hunk's first changed line stands in
	OldStart int      `json:"oldStart"`
	NewStart int      `json:"newStart"`
	Lines    []string `json:"lines"`
}

// Image is a container image that changes.
type Image struct {
	Container string `json:"container"`
	Old       string `json:"old"` // "" if new
	New       string `json:"new"` // "" if gone
}

// Risk orders what must be read first.
type Risk string

// The risks, gravest first.
const (
	RiskCritical Risk = "critical" // data or a service may be lost, or the cluster refuses the change
	RiskHigh     Risk = "high"     // rights are widened, replicas go to zero, something is removed
	RiskMedium   Risk = "medium"   // pods are replaced, something is added or changed
	RiskLow      Risk = "low"      // nothing but data or metadata
	RiskNone     Risk = "none"     // noise
)

// Rank is 0 for the gravest.
func (r Risk) Rank() int {
	for i, other := range []Risk{RiskCritical, RiskHigh, RiskMedium, RiskLow} {
		if r == other {
			return i
		}
	}
	return 4
}

// Effect is a named consequence of a change.
type Effect struct {
	Name    EffectName `json:"effect"`
	Risk    Risk       `json:"risk"`
	Message string     `json:"message"`
	Path    string     `json:"path,omitempty"`
}

// EffectName names a kind of consequence; docs/diff.md describes each.
type EffectName string

// The effects.
const (
	EffectImmutable      EffectName = "immutable-field"
	EffectDataLoss       EffectName = "data-loss"
	EffectCRDRemoved     EffectName = "crd-removed"
	EffectCRDVersion     EffectName = "crd-version-removed"
	EffectNamespaceGone  EffectName = "namespace-removed"
	EffectStatefulGone   EffectName = "statefulset-removed"
	EffectStorageShrinks EffectName = "storage-shrinks"
	EffectRolls          EffectName = "rolls"
	EffectZeroReplicas   EffectName = "zero-replicas"
	EffectRBACWidened    EffectName = "rbac-widened"
	EffectImage          EffectName = "image"
	EffectHook           EffectName = "hook"
	EffectRecreated      EffectName = "recreated"
)

// Patterns joins where a group goes: `prod/* (80), staging/eu-* (3)`.
func Patterns(where []Reach) string {
	parts := make([]string, len(where))
	for i, r := range where {
		parts[i] = r.String()
	}
	return strings.Join(parts, ", ")
}
