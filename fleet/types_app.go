package fleet

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// AppFile is one App.
type AppFile struct {
	// APIVersion is sluice.dev/v1alpha1.
	APIVersion string `json:"apiVersion" jsonschema:"required,enum=sluice.dev/v1alpha1"`
	// Kind is App.
	Kind string `json:"kind" jsonschema:"required,enum=App"`
	// Metadata names the app.
	Metadata Metadata `json:"metadata" jsonschema:"required"`
	// Spec says what the app installs, and where.
	Spec AppSpec `json:"spec" jsonschema:"required"`
}

// AppSpec says what an app installs, and where.
type AppSpec struct {
	// Namespace of the app's objects that name none.
	Namespace string `json:"namespace" jsonschema:"required"`
	// Placement selects the clusters by label; {} is every cluster.
	Placement *Selector `json:"placement" jsonschema:"required"`
	// ForEach renders the app once for each cluster that it describes.
	ForEach *ForEach `json:"forEach,omitempty"`
	// From takes what the app consists of from the catalog, instead of source and sources.
	From *FromCatalog `json:"from,omitempty"`
	// Source is what the app consists of.
	Source *Source `json:"source,omitempty"`
	// Sources are several, concatenated.
	Sources []Source `json:"sources,omitempty"`
	// Vars are variables for ${app.vars.…}, of any YAML type.
	Vars map[string]any `json:"vars,omitempty"`
	// Unstable says what to do about output that changes by itself: error, or keep the value that the branch has.
	// Default: error.
	Unstable string `json:"unstable,omitempty" jsonschema:"enum=error,enum=keep"`
	// Environments replace the placement or the sources in some environments, by name.
	Environments map[string]AppEnvironment `json:"environments,omitempty"`
	// SkipLayers are layers that the app does not take, neither the fleet's files nor its own. An app of a workspace
	// takes the fleet's files all the same.
	SkipLayers []string `json:"skipLayers,omitempty"`
	// Delivery is what `sluice bootstrap` prints for the app.
	Delivery Delivery `json:"delivery,omitzero"`
	// Helm is the major version of Helm that renders the app's charts: 3 or 4. Default: that of the cluster, or of the
	// fleet.
	Helm int `json:"helm,omitempty" jsonschema:"enum=3,enum=4"`
	// VersionFrom names the container whose image stands for the app on the pages. Default: that of the workload or the
	// container with the app's name, or else of the first workload.
	VersionFrom VersionOf `json:"versionFrom,omitzero"`
	// DependsOn are apps that a cluster must have first. It orders what `sluice bootstrap` prints, and renders nothing.
	DependsOn []string `json:"dependsOn,omitempty"`
}

// ForEach repeats an app on the clusters that its placement selects: objects that describe other clusters, such as those
// of Cluster API, are on the branch of their management cluster.
type ForEach struct {
	// Clusters selects the described clusters by label; {} is every cluster. Retired ones do not count. The app's files
	// refer to one of them with ${each.name}, ${each.kubeVersion}, ${each.environment}, ${each.labels.…} and
	// ${each.vars.…}.
	Clusters *Selector `json:"clusters" jsonschema:"required"`
}

// VersionOf names a container. Fields that are empty match every one.
type VersionOf struct {
	// Kind of the workload, such as Deployment.
	Kind string `json:"kind,omitempty"`
	// Name of the workload.
	Name string `json:"name,omitempty"`
	// Container by its name.
	Container string `json:"container,omitempty"`
}

// AppEnvironment replaces parts of an app in one environment.
type AppEnvironment struct {
	// Placement replaces the app's placement for the clusters of the environment.
	Placement *Selector `json:"placement,omitempty"`
	// Source replaces the app's source or sources.
	Source *Source `json:"source,omitempty"`
	// Sources replace the app's source or sources.
	Sources []Source `json:"sources,omitempty"`
}

// Source is a chart, a Kustomize root or a folder of manifests: exactly one of them.
type Source struct {
	// Name tells several sources apart: values.<name>.yaml beside a layer's values.yaml reaches only this one.
	Name string `json:"name,omitempty"`
	// Helm chart.
	Helm *HelmSource `json:"helm,omitempty"`
	// Kustomize root.
	Kustomize *PathSource `json:"kustomize,omitempty"`
	// Manifests are plain YAML files, with those in folders below.
	Manifests *PathSource `json:"manifests,omitempty"`
	// Objects come from an importer, never from a file of the fleet.
	Objects *ObjectsSource `json:"-"`

	shared bool // of the catalog: its paths do not begin in the folder of a workspace
}

// ObjectsSource are objects that an importer has rendered.
type ObjectsSource struct {
	Name   string // for messages
	Digest string // of Data, in hex
	Data   []byte // a stream of YAML documents
}

// HelmSource is a chart by its path in the repository, from a chart repository, or from an OCI registry.
type HelmSource struct {
	// Chart is a chart's name in repo, or an oci:// reference.
	Chart string `json:"chart,omitempty"`
	// Path of the chart in this repository, or in the one that Repository names.
	Path string `json:"path,omitempty"`
	// Repository is the name of another repository that the path is in. Default: this one.
	Repository string `json:"repository,omitempty"`
	// Repo is the URL of a chart repository.
	Repo string `json:"repo,omitempty"`
	// Version of the chart, exact or a range; sluice.lock holds what it resolved to.
	Version string `json:"version,omitempty"`
	// VersionFrom takes the version from a file or from a value instead.
	VersionFrom *VersionFrom `json:"versionFrom,omitempty"`
	// ReleaseName is Helm's release name. Default: the app's name.
	ReleaseName string `json:"releaseName,omitempty"`
	// Namespace of the release, which templates see as .Release.Namespace. Objects that name no namespace get the app's
	// namespace all the same. Default: the app's namespace.
	Namespace string `json:"namespace,omitempty"`
	// IncludeCRDs takes the chart's crds/ folder too. Default: false, as `helm template`.
	IncludeCRDs bool `json:"includeCRDs,omitempty"`
	// Hooks is keep or drop; test hooks are always dropped. Default: keep.
	Hooks string `json:"hooks,omitempty" jsonschema:"enum=keep,enum=drop"`
	// Schema is validate or skip: whether values are held against the chart's values.schema.json. Default: validate.
	Schema string `json:"schema,omitempty" jsonschema:"enum=validate,enum=skip"`
	// Verify names signers of spec.charts.signers in sluice.yaml: one of them must have signed the chart, and each
	// remote chart that it depends on. Default: what spec.charts.verify names.
	Verify []string `json:"verify,omitempty"`
	// Packing comes from an importer, never from a file of the fleet. nil packs the chart as it is.
	Packing *Packing `json:"-"`
}

// Packing is what a tool changes when it packs a chart of a repository.
type Packing struct {
	// Replaces says that Defaults are the chart's own values, in place of its values.yaml.
	Replaces bool           `json:",omitempty"`
	Defaults map[string]any `json:",omitempty"`
	// Without has the files that the tool leaves out of the chart and of its local dependencies, by their paths in the
	// fleet's tree, sorted.
	Without []string `json:",omitempty"`
}

// ID identifies what is changed; "" for nothing.
func (p *Packing) ID() (string, error) {
	if p == nil {
		return "", nil
	}
	text, err := json.Marshal(p)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return " packed " + hex.EncodeToString(sum[:]), nil
}

// VersionFrom says where a chart's version stands: in a file or in a value, exactly one of them.
type VersionFrom struct {
	// File is the path template of a file that holds the version: as its whole text, or below a key.
	File string `json:"file,omitempty"`
	// Key in a YAML or JSON file, such as charts.web.
	Key string `json:"key,omitempty"`
	// Value is a path in the app's values, such as chartVersion. It must be a string.
	Value string `json:"value,omitempty"`
}

// PathSource is a folder of the repository.
type PathSource struct {
	// Path from the repository's root; without it, the folder of app.yaml, or the root of another repository.
	Path string `json:"path,omitempty"`
	// Repository is the name of another repository that the path is in. Default: this one.
	Repository string `json:"repository,omitempty"`
	// Edited is the text of the kustomization of Path in place of the file in the repository. It comes from an
	// importer, never from a file of the fleet. nil takes the file as it is.
	Edited []byte `json:"-"`
}

// Key tells folders apart that have different content in one commit.
func (p *PathSource) Key() string {
	if p.Edited == nil {
		return p.Path
	}
	sum := sha256.Sum256(p.Edited)
	return p.Path + "\x00edited " + hex.EncodeToString(sum[:])
}

// Selector selects by labels, as in Kubernetes. An empty one selects everything.
type Selector struct {
	// MatchLabels must all be equal.
	MatchLabels map[string]string `json:"matchLabels,omitempty"`
	// MatchExpressions must all hold.
	MatchExpressions []Requirement `json:"matchExpressions,omitempty"`
	// Optional allows labels and values that no cluster has yet, which are errors otherwise. Default: false.
	Optional bool `json:"optional,omitempty"`
}

// Requirement is one condition on a label.
type Requirement struct {
	// Key of the label.
	Key string `json:"key" jsonschema:"required"`
	// Operator is In, NotIn, Exists or DoesNotExist.
	Operator string `json:"operator" jsonschema:"required,enum=In,enum=NotIn,enum=Exists,enum=DoesNotExist"`
	// Values for In and NotIn.
	Values []string `json:"values,omitempty"`
	// Optional allows a label and values that no cluster has yet, which are errors otherwise. Default: false.
	Optional bool `json:"optional,omitempty"`
}
