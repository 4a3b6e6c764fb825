package fleet

// ClassFile is one ClusterClass.
type ClassFile struct {
	// APIVersion is sluice.dev/v1alpha1.
	APIVersion string `json:"apiVersion" jsonschema:"required,enum=sluice.dev/v1alpha1"`
	// Kind is ClusterClass.
	Kind string `json:"kind" jsonschema:"required,enum=ClusterClass"`
	// Metadata names the class.
	Metadata Metadata `json:"metadata" jsonschema:"required"`
	// Spec is what clusters of the class inherit.
	Spec ClassSpec `json:"spec" jsonschema:"required"`
}

// ClassSpec is what clusters of a class inherit.
type ClassSpec struct {
	// Parent is a class whose labels, variables and versions come first.
	Parent string `json:"parent,omitempty"`
	// Labels that clusters of the class carry.
	Labels map[string]string `json:"labels,omitempty"`
	// KubeVersion of the clusters.
	KubeVersion string `json:"kubeVersion,omitempty"`
	// Helm is the major version of Helm that renders the charts of the clusters: 3 or 4. Default: that of the parent
	// class, of the tool that an app is imported from, or of the fleet.
	Helm int `json:"helm,omitempty" jsonschema:"enum=3,enum=4"`
	// APIVersions that the clusters serve beyond the built-in ones.
	APIVersions []string `json:"apiVersions,omitempty"`
	// Vars are variables for ${cluster.vars.…}, of any YAML type.
	Vars map[string]any `json:"vars,omitempty"`
	// UpgradeOrder names apps with forEach. Their objects for a cluster of the class move in this order, each step after
	// the one before is healthy; apps that it does not name move with the first. Default: that of the parent class, or
	// all at once.
	UpgradeOrder []string `json:"upgradeOrder,omitempty"`
}

// ClusterFile is one Cluster.
type ClusterFile struct {
	// APIVersion is sluice.dev/v1alpha1.
	APIVersion string `json:"apiVersion" jsonschema:"required,enum=sluice.dev/v1alpha1"`
	// Kind is Cluster.
	Kind string `json:"kind" jsonschema:"required,enum=Cluster"`
	// Metadata names the cluster and carries its labels.
	Metadata Metadata `json:"metadata" jsonschema:"required"`
	// Spec says what the cluster is.
	Spec ClusterSpec `json:"spec" jsonschema:"required"`
}

// ClusterSpec says what a cluster is.
type ClusterSpec struct {
	// Environment that the cluster belongs to.
	Environment string `json:"environment" jsonschema:"required"`
	// Class that the cluster inherits from.
	Class string `json:"class,omitempty"`
	// KubeVersion of the cluster, such as 1.33.2.
	KubeVersion string `json:"kubeVersion,omitempty"`
	// Helm is the major version of Helm that renders the charts of the cluster: 3 or 4. Default: that of the class, of
	// the tool that an app is imported from, or of the fleet.
	Helm int `json:"helm,omitempty" jsonschema:"enum=3,enum=4"`
	// APIVersions that the cluster serves beyond the built-in ones, as group/version or group/version/Kind.
	APIVersions []string `json:"apiVersions,omitempty"`
	// Vars are variables for ${cluster.vars.…}, of any YAML type.
	Vars map[string]any `json:"vars,omitempty"`
	// State is active, frozen (the branch stays as it is), retired (the branch is removed on request) or detached (the
	// branch stays as it is, and the cluster is no part of its environment any more). Default: active.
	State string `json:"state,omitempty" jsonschema:"enum=active,enum=frozen,enum=retired,enum=detached"`
	// Replaces is the cluster whose place this one takes. It renders nothing: `sluice cluster replace` writes and reads
	// it.
	Replaces string `json:"replaces,omitempty"`
}
