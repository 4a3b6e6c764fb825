package fleet

import (
	"fmt"
	"maps"
	"strings"
)

// Import is one repository layout of another tool: exactly one of flux and argocd is set.
type Import struct {
	// Ignore has patterns of files, as in .gitignore. Objects that are written there are not followed: Kustomizations,
	// HelmReleases, Applications and ApplicationSets in them become no apps. Where a parent applies them, they stay
	// ordinary objects of the parent.
	Ignore []string `json:"ignore,omitempty"`
	// Exclude has apps of the entry that are not imported, because an app.yaml of the fleet describes them. `sluice
	// eject` adds them. What their objects bring is followed all the same.
	Exclude []string `json:"exclude,omitempty"`
	// Schema is validate or skip: whether values are held against the values.schema.json of charts. Default: validate,
	// except where the tool's objects say otherwise.
	Schema string `json:"schema,omitempty" jsonschema:"enum=validate,enum=skip"`
	// Helm is the major version of Helm that renders the charts of the entry: 3 or 4. Default: what the version of the
	// tool ships.
	Helm int `json:"helm,omitempty" jsonschema:"enum=3,enum=4"`
	// Flux reads Kustomization and HelmRelease objects.
	Flux *FluxImport `json:"flux,omitempty"`
	// ArgoCD reads Application and ApplicationSet objects.
	ArgoCD *ArgoCDImport `json:"argocd,omitempty"`
}

// ArgoCDImport reads Applications and ApplicationSets.
type ArgoCDImport struct {
	// Version of Argo CD, such as 3.2. It decides what differs between versions: Helm 4 since 3.5, Helm 3 before.
	// Default: the current version.
	Version string `json:"version,omitempty"`
	// Apps are patterns of files that hold Applications, ApplicationSets and cluster Secrets. Default: all YAML and
	// JSON files.
	Apps []string `json:"apps,omitempty"`
	// Repositories are URLs of this repository. Default: the URL that most sources with a path in this repository name.
	Repositories []string `json:"repositories,omitempty"`
	// Kustomize has the settings of Argo CD that change what Kustomize renders.
	Kustomize ArgoCDKustomize `json:"kustomize,omitzero"`
	// Clusters by the name that Argo CD knows them by.
	Clusters map[string]ArgoCDCluster `json:"clusters" jsonschema:"required"`
}

// LabelsOf returns the labels that generators see: those of the entry, on top of the registry's if the registry
// describes the cluster.
func (a *ArgoCDImport) LabelsOf(cluster string, registry map[string]string) map[string]string {
	own := a.Clusters[cluster]
	if own.Environment != "" { // the entry describes it
		return maps.Clone(own.Labels)
	}
	out := map[string]string{}
	maps.Copy(out, registry)
	maps.Copy(out, own.Labels)
	return out
}

// ArgoCDKustomize has settings of Argo CD's ConfigMap argocd-cm.
type ArgoCDKustomize struct {
	// BuildOptions is the value of kustomize.buildOptions in argocd-cm. The only option that Sluice accepts is
	// --enable-helm: kustomizations may list helmCharts then.
	BuildOptions string `json:"buildOptions,omitempty"`
}

// EnableHelm reports whether kustomizations may list helmCharts. An option that Sluice does not support is an error.
func (k ArgoCDKustomize) EnableHelm() (bool, error) {
	enabled := false
	for option := range strings.FieldsSeq(k.BuildOptions) {
		switch option {
		case "--enable-helm", "--enable-helm=true":
			enabled = true
		case "--enable-helm=false":
			enabled = false
		default:
			return false, fmt.Errorf("the option %q is not supported", option)
		}
	}
	return enabled, nil
}

// ArgoCDCluster is a cluster of Argo CD. What the registry says of a cluster of the same name holds too.
type ArgoCDCluster struct {
	// Name of the cluster in Argo CD, such as arn:aws:eks:eu-west-1:1234:cluster/prod, if a cluster of the fleet cannot
	// have it.
	Name string `json:"name,omitempty"`
	// Server is the address of the cluster's API server, as destinations name it. Clusters that destinations name by
	// name need none.
	Server string `json:"server,omitempty"`
	// Environment that the cluster belongs to. Not needed if the cluster is in the registry.
	Environment string `json:"environment,omitempty"`
	// Labels of the cluster, which cluster generators select by.
	Labels map[string]string `json:"labels,omitempty"`
	// Annotations of the cluster, for templates of ApplicationSets.
	Annotations map[string]string `json:"annotations,omitempty"`
	// KubeVersion of the cluster, such as 1.33.2.
	KubeVersion string `json:"kubeVersion,omitempty"`
	// APIVersions that the cluster serves beyond the built-in ones, as group/version or group/version/Kind.
	APIVersions []string `json:"apiVersions,omitempty"`
}

// FluxImport reads clusters that Flux syncs.
type FluxImport struct {
	// Version of Flux, such as 2.7. It decides what differs between versions: Helm 4 since 2.8, Helm 3 before. Default:
	// the current version.
	Version string `json:"version,omitempty"`
	// StrictPostBuildSubstitutions is the feature gate of kustomize-controller: whether a variable that is not set and
	// has no default is an error. Default: true since Flux 2.9 (kustomize-controller 1.9), false for a version before.
	StrictPostBuildSubstitutions *bool `json:"strictPostBuildSubstitutions,omitempty"`
	// Clusters by name.
	Clusters map[string]ImportedCluster `json:"clusters" jsonschema:"required"`
}

// ImportedCluster is a cluster of an import. What the registry says of a cluster of the same name holds too.
type ImportedCluster struct {
	// Path is the directory that the cluster's first Kustomization applies, such as clusters/prod.
	Path string `json:"path" jsonschema:"required"`
	// Environment that the cluster belongs to. Not needed if the cluster is in the registry.
	Environment string `json:"environment,omitempty"`
	// Labels of the cluster.
	Labels map[string]string `json:"labels,omitempty"`
	// KubeVersion of the cluster, such as 1.33.2.
	KubeVersion string `json:"kubeVersion,omitempty"`
	// APIVersions that the cluster serves beyond the built-in ones, as group/version or group/version/Kind.
	APIVersions []string `json:"apiVersions,omitempty"`
}

func (i Import) tool() string {
	if i.ArgoCD != nil {
		return "argocd"
	}
	return "flux"
}

// clusters are those of the entry, in the form of a Flux entry.
func (i Import) clusters() map[string]ImportedCluster {
	switch {
	case i.Flux != nil:
		return i.Flux.Clusters
	case i.ArgoCD != nil:
		out := map[string]ImportedCluster{}
		for name, c := range i.ArgoCD.Clusters {
			out[name] = ImportedCluster{
				Environment: c.Environment, Labels: c.Labels, KubeVersion: c.KubeVersion,
				APIVersions: c.APIVersions,
			}
		}
		return out
	}
	return nil
}
