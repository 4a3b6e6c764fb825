package fleet

// RepositoryFile is one Repository.
type RepositoryFile struct {
	// APIVersion is sluice.dev/v1alpha1.
	APIVersion string `json:"apiVersion" jsonschema:"required,enum=sluice.dev/v1alpha1"`
	// Kind is Repository.
	Kind string `json:"kind" jsonschema:"required,enum=Repository"`
	// Metadata names the repository. Sources and layers refer to it by this name.
	Metadata Metadata `json:"metadata" jsonschema:"required"`
	// Spec says where the repository is, and what of it is used.
	Spec RepositorySpec `json:"spec" jsonschema:"required"`
}

// RepositorySpec is another Git repository that the fleet takes charts, Kustomize roots, manifests or layers from.
// sluice.lock pins its commit.
type RepositorySpec struct {
	// URL of the repository, over https or ssh, without credentials. Credentials belong to the URL's host.
	URL string `json:"url" jsonschema:"required"`
	// Branch whose newest commit `sluice deps update` pins. Excludes tags.
	Branch string `json:"branch,omitempty"`
	// Tags is a pattern of tags, such as v1.*; `sluice deps update` pins the highest version among them. Excludes
	// branch.
	Tags string `json:"tags,omitempty"`
	// Reviews makes the service review merge requests of the repository: it shows there what they do to this fleet, to
	// everybody who can read that repository. The service's configuration must name the repository.
	Reviews bool `json:"reviews,omitempty"`
	// ShownIn names the repositories in whose merge requests the service may show changes of this one that they depend
	// on (Depends-On): everybody who can read those sees them. "*" is every repository of the fleet. Merge requests of
	// the fleet show them in any case.
	ShownIn []string `json:"shownIn,omitempty"`
	// Follow makes the service move the pin when the branch or the tags move: true opens a merge request, {commit:
	// true} commits to the trunk.
	Follow Follow `json:"follow,omitzero"`
}

// Follow says how the service moves the pin of a repository. Written as true it means a merge request.
type Follow struct {
	// MergeRequest opens one merge request of the fleet and keeps it at the newest commit.
	MergeRequest bool `json:"mergeRequest,omitempty"`
	// Commit commits the new pin to the trunk, without a review.
	Commit bool `json:"commit,omitempty"`
}

// On reports whether the service moves the pin.
func (f Follow) On() bool { return f.MergeRequest || f.Commit }
