// Package diff compares objects, not text. It finds what was added, changed, removed or renamed between two
// renderings, lists the changed fields with their paths, determines the consequences, and groups equal changes over
// clusters. It is pure and deterministic, and its cost grows linearly with the number of objects. Callers mask
// secrets (Masker) first; a change set contains only content of the given objects.
//
// The package is API: docs/architecture.md says how stable it is.
package diff

import (
	"fmt"
	"strings"

	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// Target is one app on one cluster, before and after. Objects with equal Keys are equal; Compare compares each pair
// of keys once for the whole fleet.
type Target struct {
	App, Cluster, Environment string
	Sync                      Sync // the tool that applies the cluster's branch
	// why the tool leaves objects of a removed target in the cluster; "" if it does not
	Keeps         string
	Force         bool     // Flux applies the objects with spec.force
	Facts         Facts    // nil: none
	Before, After []Object // objects that are equal on both sides may be omitted
	BaseUnknown   bool     // Before is not known, and empty
}

func (t *Target) facts() map[string]string {
	if t.Facts == nil {
		return nil
	}
	return t.Facts()
}

// Facts maps the references in an app's files (cluster.vars.domain) to their values for a cluster. Changes that differ
// only in such values stay in one group. Compare calls it only for targets with changes, and not for all of them.
type Facts func() map[string]string

// Object is one object with a key for its content.
type Object struct {
	Key    string // equal keys mean equal objects
	Object manifest.Object
}

// Withheld is a target that could not be rendered on one side or on both. The change set contains none of its objects,
// except with Before.
type Withheld struct {
	App         string `json:"app"`
	Cluster     string `json:"cluster"` // "" if it is not known, and Environment too
	Environment string `json:"environment"`
	File        string `json:"file,omitempty"` // of the repository, where the cause is; "" if unknown
	Line        int    `json:"line,omitempty"` // 0 if unknown
	Column      int    `json:"column,omitempty"`
	Message     string `json:"message"`
	// Before says that the base cannot be rendered, but the head can: the change set has the objects of the head, in a
	// group with BaseUnknown.
	Before bool `json:"before,omitempty"`
}

// ChangeSet is the difference between two renderings.
type ChangeSet struct {
	Groups   []Group    `json:"groups"`   // by harm, risk and number of clusters
	Apps     []App      `json:"apps"`     // in the order of their first group
	Withheld []Withheld `json:"withheld"` // by app, environment and cluster
	Compared int        `json:"compared"` // number of targets, without the withheld ones
	// Environments are those of the fleet, in the order of the promotion graph.
	Environments []string `json:"environments,omitempty"`
	// Unread are imported targets that fail in the head and may bring others, as `app on cluster`. What they bring is
	// not compared.
	Unread []string `json:"unread,omitempty"`
	// Targetless says that the fleet imports its targets and the head has none.
	Targetless bool `json:"targetless,omitempty"`
	// Declarations are changes of the objects of Flux or Argo CD that declare targets, where the report shows no
	// rendered object instead: the target is withheld, or renders the same. They are in no count, except that of Empty.
	Declarations []Group `json:"declarations,omitempty"`
	// Files are changed files that the report shows nowhere else.
	Files []File `json:"files,omitempty"`
	// Losses are the clusters and environments that lose much of what they had.
	Losses []Loss `json:"losses,omitempty"`
	Totals Counts `json:"totals"`
}

// File is a changed file that no change of the set shows, although it looks like a manifest, values, a chart or a
// kustomization.
type File struct {
	Path string `json:"path"`
	// Read says that a target or a setting of Sluice reads the file, and that no rendered object changes. Otherwise no
	// known target reads it.
	Read   bool   `json:"read,omitempty"`
	Reason string `json:"reason"` // why it has no effect, or probably is not read
}

// Unclaimed returns the number of changed files that no known target reads.
func (c *ChangeSet) Unclaimed() int {
	n := 0
	for i := range c.Files {
		if !c.Files[i].Read {
			n++
		}
	}
	return n
}

// Uncertain returns the number of changed files that no known target reads, and that a target may read which is not known: one
// that brings others cannot be rendered, or no target at all is known.
func (c *ChangeSet) Uncertain() int {
	if len(c.Unread) == 0 && !c.Targetless {
		return 0
	}
	return c.Unclaimed()
}

// Empty reports whether no object and no declaration changes and no target was withheld.
func (c *ChangeSet) Empty() bool { return len(c.Groups)+len(c.Withheld)+len(c.Declarations) == 0 }

// Counts are numbers of objects. An object counts once for every cluster.
type Counts struct {
	Added     int `json:"added"`
	Changed   int `json:"changed"` // renamed ones too
	Removed   int `json:"removed"`
	Orphaned  int `json:"orphaned,omitempty"` // of Removed: they stay in the cluster and are no longer managed
	Noise     int `json:"noise"`              // objects in which only noise changes; not part of Changed
	Workloads int `json:"workloads"`          // workloads whose pods are replaced
}

// Add adds o n times.
func (c *Counts) Add(o Counts, n int) {
	c.Added += n * o.Added
	c.Changed += n * o.Changed
	c.Removed += n * o.Removed
	c.Orphaned += n * o.Orphaned
	c.Noise += n * o.Noise
	c.Workloads += n * o.Workloads
}

// Deleted returns the number of objects that the sync tool deletes.
func (c Counts) Deleted() int { return c.Removed - c.Orphaned }

// App summarizes the changes of one app.
type App struct {
	Name     string   `json:"app"`
	Clusters int      `json:"clusters"` // with a change
	Groups   int      `json:"groups"`
	Counts   Counts   `json:"counts"`
	Risk     Risk     `json:"risk"`
	Summary  string   `json:"summary"` // the most important change, one line
	Where    []Reach  `json:"where"`
	Withheld int      `json:"withheld,omitempty"` // targets
	Images   []Image  `json:"images,omitempty"`
	Effects  []Effect `json:"effects,omitempty"` // of critical and high risk, each kind once
}

// Group is one change of an app that is equal on all its clusters.
type Group struct {
	ID           string         `json:"id"` // equal changes of an app have equal ids in every report
	App          string         `json:"app"`
	Clusters     []string       `json:"clusters"` // by name
	Where        []Reach        `json:"where"`
	Environments []string       `json:"environments"` // of the clusters, in the order of the promotion graph
	Objects      []ObjectChange `json:"objects"`      // by risk, then by identity
	Counts       Counts         `json:"counts"`       // on one cluster
	Risk         Risk           `json:"risk"`
	Varies       []string       `json:"varies,omitempty"` // references whose values differ between the clusters
	Example      string         `json:"example"`          // the cluster whose objects and values Objects shows
	Summary      string         `json:"summary"`
	// BaseUnknown says that the targets cannot be rendered at the base: the objects of the head are all shown, as
	// added, and are new or changed.
	BaseUnknown bool `json:"baseUnknown,omitempty"`
	// Cause is the only changed place that all targets of the group read; nil if there are several, or it is not known.
	Cause *Cause `json:"cause,omitempty"`

	varying map[string]string // by reference of Varies: the value on Example
	chance  bool              // some texts have such a value on Example by chance
}

// Cause is a place in the source repository.
type Cause struct {
	File string `json:"file"`
	Line int    `json:"line,omitempty"` // of the head; 0 if several parts of the file change
	// the other repository whose pinned commit changes; "" for a file of the fleet itself
	Repository string `json:"repository,omitempty"`
}

// String returns the place: charts/web/templates/deployment.yaml:14.
func (c *Cause) String() string {
	switch {
	case c.Repository != "":
		return "the pin of " + c.Repository
	case c.Line > 0:
		return fmt.Sprintf("%s:%d", c.File, c.Line)
	}
	return c.File
}

// Reach describes clusters that have an app by what they have in common: `prod/*` are all of an environment,
// `prod class=edge` those with a label, `class=edge` those of all environments. docs/diff.md has the rules.
type Reach struct {
	Environment string `json:"environment"` // "" if the pattern is about several
	Pattern     string `json:"pattern"`
	Clusters    int    `json:"clusters"`
	// the clusters of the app that a pattern of names matches, if there are others beside Clusters
	Of int `json:"of,omitempty"`
}

// Verb is the kind of a change to an object.
type Verb string

// The verbs.
const (
	Added   Verb = "added"
	Changed Verb = "changed"
	Removed Verb = "removed"
	Renamed Verb = "renamed" // possibly with other changes
)

// ObjectChange is the change of one object.
type ObjectChange struct {
	Verb       Verb              `json:"verb"`
	ID         manifest.Identity `json:"id"`
	OldID      manifest.Identity `json:"oldId,omitzero"` // of a renamed object
	APIVersion string            `json:"apiVersion"`
	Fields     []FieldChange     `json:"fields,omitempty"` // of a changed or renamed object, by path
	// changed version labels and checksums, and fields that the API server stores as before
	Noise   []FieldChange `json:"noise,omitempty"`
	Effects []Effect      `json:"effects,omitempty"`
	Images  []Image       `json:"images,omitempty"`
	Risk    Risk          `json:"risk"`
	Rights  []Right       `json:"rights,omitempty"` // of a Role or ClusterRole, by resource and verb
	// canonical YAML without noise; an added or removed object completely
	Hunks []Hunk `json:"hunks,omitempty"`
	Lines int    `json:"lines"`           // number of lines in Hunks
	Rolls bool   `json:"rolls,omitempty"` // the pods are replaced
	// the complete object before, for readers that expand hunks; may be nil
	Context []string `json:"-"`
}

// OnlyNoise reports whether nothing but noise changes.
func (o *ObjectChange) OnlyNoise() bool { return o.Verb == Changed && len(o.Fields) == 0 }

// Title returns the object's title: `Deployment shop/web`.
func (o *ObjectChange) Title() string { return Title(o.ID) }

// Title returns an object's kind, namespace and name: `Deployment shop/web`.
func Title(id manifest.Identity) string {
	if id.Namespace == "" {
		return id.Kind + " " + id.Name
	}
	return id.Kind + " " + id.Namespace + "/" + id.Name
}

// FieldChange is one changed field: a scalar, or a mapping or list that exists on one side only.
type FieldChange struct {
	Path string `json:"path"` // spec.template.spec.containers[name=web].image
	Old  any    `json:"old"`
	New  any    `json:"new"`
	Had  bool   `json:"had"` // the field existed before
	Has  bool   `json:"has"` // the field exists now
}

// Hunk is a part of a unified diff. Lines begin with ' ', '-' or '+'.
type Hunk struct {
	Path     string   `json:"path,omitempty"` // of the mapping that contains the first changed line
	OldStart int      `json:"oldStart"`
	NewStart int      `json:"newStart"`
	Lines    []string `json:"lines"`
}

// Image is a container image that changes.
type Image struct {
	Container string `json:"container"`
	Old       string `json:"old"` // "" if new
	New       string `json:"new"` // "" if removed
}

// Right is one verb on one resource that a role grants before or after the change.
type Right struct {
	Resource string `json:"resource"` // deployments.apps, secrets/name, url /healthz
	Verb     string `json:"verb"`
	Had      bool   `json:"had"`
	Has      bool   `json:"has"`
}

// Risk orders changes by what a reviewer must read first.
type Risk string

// The risks, highest first.
const (
	RiskCritical Risk = "critical" // data or a service is lost, or the cluster refuses the change
	// an object is removed, rights are widened, no replica is left, the effect depends on the sync tool
	RiskHigh   Risk = "high"
	RiskMedium Risk = "medium" // an object is added, pods are replaced, a Job runs again
	RiskLow    Risk = "low"    // only data or metadata changes
	RiskNone   Risk = "none"   // only noise changes
)

// Rank returns 0 for the highest risk.
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
	EffectRerun          EffectName = "job-runs-again"
	EffectDependsOnSync  EffectName = "depends-on-sync"
	EffectNotApplied     EffectName = "not-applied"
	EffectOrphan         EffectName = "orphaned"
	EffectReplicasCut    EffectName = "replicas-cut"
	EffectHostAccess     EffectName = "host-access"
	EffectExposed        EffectName = "exposed"
	EffectNoDisruption   EffectName = "disruption-blocked"

	// of a Loss
	EffectEnvironmentGone EffectName = "environment-removed"
	EffectEmptied         EffectName = "cluster-emptied"
	EffectLargeLoss       EffectName = "large-loss"

	// only for Rules.Risks: what an object that is added or removed has without other effects
	EffectAdded   EffectName = "added"
	EffectRemoved EffectName = "removed"
)

// EffectNames returns all names of effects, those of a Loss and those of Rules.Risks included.
func EffectNames() []EffectName {
	return []EffectName{
		EffectImmutable, EffectDataLoss, EffectCRDRemoved, EffectCRDVersion, EffectNamespaceGone, EffectStatefulGone,
		EffectStorageShrinks, EffectRolls, EffectZeroReplicas, EffectRBACWidened, EffectImage, EffectHook,
		EffectRecreated, EffectRerun, EffectDependsOnSync, EffectNotApplied, EffectOrphan, EffectReplicasCut,
		EffectHostAccess, EffectExposed, EffectNoDisruption, EffectEnvironmentGone, EffectEmptied, EffectLargeLoss,
		EffectAdded, EffectRemoved,
	}
}

// Patterns joins reaches: `prod/* (80), staging/eu-* (3)`.
func Patterns(where []Reach) string {
	parts := make([]string, len(where))
	for i, r := range where {
		parts[i] = r.String()
	}
	return strings.Join(parts, ", ")
}
