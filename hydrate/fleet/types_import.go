package fleet

// Import is one repository layout of another tool: exactly one of its fields is set.
type Import struct {
	// Flux reads Kustomization and HelmRelease objects.
	Flux *FluxImport `json:"flux,omitempty"`
}

// FluxImport reads clusters that Flux syncs.
type FluxImport struct {
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

func (i Import) tool() string { return "flux" }

func (i Import) clusters() map[string]ImportedCluster {
	if i.Flux != nil {
		return i.Flux.Clusters
	}
	return nil
}
