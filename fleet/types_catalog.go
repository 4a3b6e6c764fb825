package fleet

// CatalogFile is one version of an app of the catalog.
type CatalogFile struct {
	// APIVersion is sluice.dev/v1alpha1.
	APIVersion string `json:"apiVersion" jsonschema:"required,enum=sluice.dev/v1alpha1"`
	// Kind is CatalogApp.
	Kind string `json:"kind" jsonschema:"required,enum=CatalogApp"`
	// Metadata names the app of the catalog. All its versions have the same name.
	Metadata Metadata `json:"metadata" jsonschema:"required"`
	// Spec says what the version installs, and which parameters it has.
	Spec CatalogSpec `json:"spec" jsonschema:"required"`
}

// CatalogSpec is what a version of an app of the catalog installs.
type CatalogSpec struct {
	// Version that apps name, such as 3 or 2.1.
	Version CatalogVersion `json:"version" jsonschema:"required"`
	// Description for people who choose an app.
	Description string `json:"description,omitempty"`
	// Deprecated says why apps should leave the version, and what to take instead. Apps that use it get a warning.
	Deprecated string `json:"deprecated,omitempty"`
	// Parameters are a JSON schema of the values that an app may give. Files of the catalog refer to them with
	// ${app.vars.…}. A parameter that the schema does not name is an error.
	Parameters map[string]any `json:"parameters,omitempty"`
	// Source is what the app consists of. Its paths begin in the repository of the catalog; without a path, it is the folder
	// of this file.
	Source *Source `json:"source,omitempty"`
	// Sources are several, concatenated.
	Sources []Source `json:"sources,omitempty"`
	// Vars are variables for ${app.vars.…} that an app cannot change.
	Vars map[string]any `json:"vars,omitempty"`
	// Helm is the major version of Helm that renders the charts: 3 or 4. Default: that of the cluster, or of the fleet.
	Helm int `json:"helm,omitempty" jsonschema:"enum=3,enum=4"`
	// Unstable says what to do about output that changes by itself: error, or keep the value that the branch has.
	// Default: error.
	Unstable string `json:"unstable,omitempty" jsonschema:"enum=error,enum=keep"`
}

// CatalogVersion is the version of an app of the catalog: a number, or a text such as 2.1 in quotes.
type CatalogVersion string

// CatalogFrom names a folder with a catalog in another repository.
type CatalogFrom struct {
	// Repository is the name of a Repository of the fleet. sluice.lock pins its commit.
	Repository string `json:"repository" jsonschema:"required"`
	// Path of the folder. It has the files NAME/VERSION/catalog.yaml. Default: catalog.
	Path string `json:"path,omitempty"`
}

// FromCatalog takes what an app consists of from the catalog.
type FromCatalog struct {
	// Catalog is the name of the app in the catalog.
	Catalog string `json:"catalog" jsonschema:"required"`
	// Version of it.
	Version CatalogVersion `json:"version" jsonschema:"required"`
	// Values of its parameters.
	Values map[string]any `json:"values,omitempty"`
}
