package fleet

// WorkspaceFile is one Workspace.
type WorkspaceFile struct {
	// APIVersion is sluice.dev/v1alpha1.
	APIVersion string `json:"apiVersion" jsonschema:"required,enum=sluice.dev/v1alpha1"`
	// Kind is Workspace.
	Kind string `json:"kind" jsonschema:"required,enum=Workspace"`
	// Metadata names the workspace. Its apps are called NAME/APP.
	Metadata Metadata `json:"metadata" jsonschema:"required"`
	// Spec says where the workspace is, and what it is confined to.
	Spec WorkspaceSpec `json:"spec" jsonschema:"required"`
}

// WorkspaceSpec says where the apps and layers of a tenant are, and what they are confined to.
type WorkspaceSpec struct {
	// Repository is the name of another repository that the workspace is in. Default: this one.
	Repository string `json:"repository,omitempty"`
	// Path of the workspace's folder. Default: workspaces/NAME in this repository, the root of another one.
	Path string `json:"path,omitempty"`
	// Administrators are the people who answer for the workspace. They are shown, and get no rights.
	Administrators Administrators `json:"administrators,omitzero"`
	// Approvers may approve promotions that bring apps of this workspace only, beside the approvers of the environment.
	// They get no other right.
	Approvers WorkspaceApprovers `json:"approvers,omitzero"`
	// Clusters selects the clusters that the workspace reaches by label, class included; {} is every cluster.
	Clusters *Selector `json:"clusters" jsonschema:"required"`
	// Environments that the workspace reaches. Default: all.
	Environments []string `json:"environments,omitempty"`
	// Namespaces are patterns of the namespaces that objects may be in, such as team-a-*. No two workspaces may share a
	// namespace on a cluster.
	Namespaces []string `json:"namespaces" jsonschema:"required,minItems=1"`
	// Kinds says which kinds of objects the workspace may contain.
	Kinds WorkspaceKinds `json:"kinds,omitzero"`
	// Roles are the ClusterRoles that the workspace may bind. Default: edit and view.
	Roles []string `json:"roles,omitempty"`
	// References are patterns of other namespaces that objects may refer to, such as that of a shared Gateway.
	References []string `json:"references,omitempty"`
	// Sources says where charts, files and images may come from.
	Sources WorkspaceSources `json:"sources,omitzero"`
	// HostAccess lets pods use the host: its network, processes, folders and privileges. Default: false.
	HostAccess bool `json:"hostAccess,omitempty"`
	// Quotas bound the workspace on each cluster.
	Quotas Quotas `json:"quotas,omitzero"`
	// Policy of the workspace itself: rules about the objects of its own apps, in addition to those of the fleet.
	// Default: none.
	Policy WorkspacePolicy `json:"policy,omitzero"`
}

// WorkspacePolicy is where a workspace has rules of its own.
type WorkspacePolicy struct {
	// Path of the folder with the rules, in the folder of the workspace.
	Path string `json:"path" jsonschema:"required,pattern=."`
}

// Administrators are people who answer for a workspace.
type Administrators struct {
	// Users by their name on the forge.
	Users []string `json:"users,omitempty"`
	// Teams (GitHub, Gitea) or groups (GitLab).
	Teams []string `json:"teams,omitempty"`
}

// WorkspaceApprovers are people who may approve the promotions of a workspace.
type WorkspaceApprovers struct {
	// Users by their name on the forge.
	Users []string `json:"users,omitempty"`
	// Teams (GitHub, Gitea) or groups (GitLab).
	Teams []string `json:"teams,omitempty"`
	// Count of approvals needed, in environments that need approvals. An environment that needs more keeps its own
	// count.
	Count int `json:"count,omitempty" jsonschema:"minimum=0"`
}

// WorkspaceKinds are kinds of objects, written as Kind or Kind.group; * stands for any text.
type WorkspaceKinds struct {
	// Allow are the namespaced kinds. Default: those that Kubernetes has built in. A custom kind needs an entry with
	// its group.
	Allow []string `json:"allow,omitempty"`
	// Deny are kinds that the workspace may not contain, whatever else allows them.
	Deny []string `json:"deny,omitempty"`
	// ClusterScoped are the cluster-scoped kinds. Default: none.
	ClusterScoped []string `json:"clusterScoped,omitempty"`
}

// WorkspaceSources are places that a workspace may take content from.
type WorkspaceSources struct {
	// Charts are patterns of charts, such as https://charts.example.com/stable/* or oci://ghcr.io/acme/charts/**.
	// Default: any chart that sluice.lock holds.
	Charts []string `json:"charts,omitempty"`
	// Images are patterns of container images without tag, such as ghcr.io/acme/**. Default: any image.
	Images []string `json:"images,omitempty"`
	// Repositories are the names of other repositories whose files apps may name. Default: only the workspace's own.
	Repositories []string `json:"repositories,omitempty"`
}

// Quotas bound a workspace on each cluster; 0 is no bound.
type Quotas struct {
	// Objects of the workspace on one cluster.
	Objects int `json:"objects,omitempty" jsonschema:"minimum=0"`
	// Targets are apps of the workspace on one cluster.
	Targets int `json:"targets,omitempty" jsonschema:"minimum=0"`
}
