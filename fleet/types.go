package fleet

// APIVersion is the version of every kind.
const APIVersion = "sluice.dev/v1alpha1"

// Metadata names an object.
type Metadata struct {
	// Name of the object, unique among its kind.
	Name string `json:"name" jsonschema:"required"`
	// Labels of a cluster, which layers, placements and waves select by.
	Labels map[string]string `json:"labels,omitempty"`
}

// FleetFile is sluice.yaml: what holds for the whole repository.
type FleetFile struct { //nolint:revive // the kind is called Fleet, beside ClusterFile and AppFile
	// APIVersion is sluice.dev/v1alpha1.
	APIVersion string `json:"apiVersion" jsonschema:"required,enum=sluice.dev/v1alpha1"`
	// Kind is Fleet.
	Kind string `json:"kind" jsonschema:"required,enum=Fleet"`
	// Metadata names the fleet.
	Metadata Metadata `json:"metadata" jsonschema:"required"`
	// Spec says what the fleet consists of.
	Spec FleetSpec `json:"spec" jsonschema:"required"`
}

// FleetSpec says what the fleet consists of.
type FleetSpec struct { //nolint:revive // the kind is called Fleet, beside ClusterSpec and AppSpec
	// Trunk is the branch whose commits are hydrated. Default: main.
	Trunk string `json:"trunk,omitempty"`
	// Files names where clusters and apps stand, for a repository with a layout of its own.
	Files Files `json:"files,omitzero"`
	// Import reads repositories of other tools as they are.
	Import []Import `json:"import,omitempty"`
	// Helm is the major version of Helm that renders charts: 3 or 4. Default: 3, and for imported apps that of their
	// tool.
	Helm int `json:"helm,omitempty" jsonschema:"enum=3,enum=4"`
	// Layers are label keys, lowest precedence first. The layer `global` comes before all of them.
	Layers []Layer `json:"layers,omitempty"`
	// Environments are the stages of the promotion graph.
	Environments []Environment `json:"environments" jsonschema:"required,minItems=1"`
	// Output says what the branches look like and where they live.
	Output Output `json:"output,omitzero"`
	// Safety bounds what one hydration may take away.
	Safety Safety `json:"safety,omitzero"`
	// Sync is the tool that applies the cluster branches: argocd or flux. Reports and `sluice bootstrap` follow it.
	// Default: not known.
	Sync string `json:"sync,omitempty" jsonschema:"enum=argocd,enum=flux"`
	// Flux is for environments that Flux syncs.
	Flux Flux `json:"flux,omitzero"`
	// Policy says what findings stop.
	Policy Policy `json:"policy,omitzero"`
	// Strict turns checks off that are on by default.
	Strict Strict `json:"strict,omitzero"`
	// Delivery is what `sluice bootstrap` prints for every app; an app's own comes on top.
	Delivery Delivery `json:"delivery,omitzero"`
	// Traffic names the label by which clusters get traffic. `sluice cluster replace` moves it from one cluster to
	// another, after everything else.
	Traffic *Traffic `json:"traffic,omitempty"`
	// Gates are conditions of promotions that the organization writes, in another repository.
	Gates GatesFrom `json:"gates,omitzero"`
	// Catalog names folders of other repositories with apps to choose from, beside the folder catalog of this one.
	Catalog []CatalogFrom `json:"catalog,omitempty"`
	// Kinds says which custom kinds are cluster-scoped or namespaced, for kinds whose definition is not in the fleet.
	Kinds Kinds `json:"kinds,omitzero"`
	// Signers are lines in the form of Git's allowed-signers file: who may sign records and rendered commits. With it,
	// unsigned ones stop promotions.
	Signers []string `json:"signers,omitempty"`
	// Charts says who must have signed remote charts.
	Charts Charts `json:"charts,omitzero"`
	// Risk says how grave changes are in reports.
	Risk Risk `json:"risk,omitzero"`
	// Routine says which changes a team may merge without a reader. Default: none.
	Routine *Routine `json:"routine,omitempty"`
	// Images says which images of containers a review looks for in their registries.
	Images Images `json:"images,omitzero"`
	// Upgrades is what `sluice upgrade plan` and reviews know of versions, beside what Sluice knows itself.
	Upgrades Upgrades `json:"upgrades,omitzero"`
	// Review says which labels Sluice sets on merge requests, and whose reviews it asks for. Default: none.
	Review Review `json:"review,omitzero"`
}

// Upgrades is what a fleet knows of versions of Kubernetes.
type Upgrades struct {
	// Addons say which versions of Kubernetes components work with. The first entry that fits an image counts, and those
	// of the fleet come before those of Sluice.
	Addons []UpgradeAddon `json:"addons,omitempty"`
	// APIs that go with a version of Kubernetes, such as those of an add-on that a platform removes with it.
	APIs []UpgradeAPI `json:"apis,omitempty"`
}

// UpgradeAddon says which versions of Kubernetes a component works with. Its version is the tag of its image.
type UpgradeAddon struct {
	// Name of the component, for messages.
	Name string `json:"name" jsonschema:"required"`
	// Images are the last parts of repositories, such as cilium/cilium, so that a mirror counts too. A part may have `*`.
	Images []string `json:"images" jsonschema:"required"`
	// Versions of the component that the entry is about, such as `>=1.18 <1.19`. Default: all.
	Versions string `json:"versions,omitempty"`
	// Kubernetes are the versions that it works with, such as `>=1.30 <=1.33`. Either this or skew.
	Kubernetes string `json:"kubernetes,omitempty"`
	// Skew is how many minor versions the component may be away from the cluster.
	Skew *UpgradeSkew `json:"skew,omitempty"`
	// Advice makes the entry a warning, which blocks no upgrade. Default: false.
	Advice bool `json:"advice,omitempty"`
	// Source is the address of the document that says it.
	Source string `json:"source,omitempty"`
}

// UpgradeSkew is how many minor versions a component may be away from the cluster.
type UpgradeSkew struct {
	// Older than the cluster. Default: 0.
	Older int `json:"older,omitempty"`
	// Newer than the cluster. Default: 0.
	Newer int `json:"newer,omitempty"`
}

// UpgradeAPI is a version of a kind with its end of life.
type UpgradeAPI struct {
	// APIVersion of the kind, such as example.com/v1alpha1.
	APIVersion string `json:"apiVersion" jsonschema:"required"`
	// Kind of the objects.
	Kind string `json:"kind" jsonschema:"required"`
	// DeprecatedIn is the version of Kubernetes that deprecates it, such as 1.33.
	DeprecatedIn string `json:"deprecatedIn,omitempty"`
	// RemovedIn is the version of Kubernetes that no longer serves it, such as 1.36.
	RemovedIn string `json:"removedIn,omitempty"`
	// Replacement is what to use instead, such as `example.com/v1 Widget`.
	Replacement string `json:"replacement,omitempty"`
}

// Images says which images of containers a review looks for in their registries.
type Images struct {
	// MustExist are patterns of repositories, such as `ghcr.io/acme/**`. A review fails if it adds a reference to such
	// a repository that the registry does not have. Default: none.
	MustExist []string `json:"mustExist,omitempty"`
}

// Review says which labels Sluice sets on merge requests, and whose reviews it asks for.
type Review struct {
	// Labels that each review sets, and removes when they are no longer true.
	Labels ReviewLabels `json:"labels,omitzero"`
	// Reviewers are rules: who is asked for a review of which changes.
	Reviewers []ReviewerRule `json:"reviewers,omitempty"`
	// Codeowners asks the owners in CODEOWNERS of the apps, workspaces and environments that a merge request really
	// changes, although it may change no file of theirs. Default: false.
	Codeowners bool `json:"codeowners,omitempty"`
}

// ReviewLabels are the labels that reviews set.
type ReviewLabels struct {
	// Environments sets sluice/NAME for each environment in which something changes. Default: false.
	Environments bool `json:"environments,omitempty"`
	// Risk sets risk/LEVEL, the greatest risk of the change. Default: false.
	Risk bool `json:"risk,omitempty"`
	// Routine sets sluice/routine on a change that spec.routine says may be merged without a reader. Default: false.
	Routine bool `json:"routine,omitempty"`
}

// ReviewerRule asks people for a review of changes that fulfil all of its conditions.
type ReviewerRule struct {
	// Environments that the change reaches: names, or patterns with `*`. Default: any.
	Environments []string `json:"environments,omitempty"`
	// Risk is the least risk of the change: critical, high, medium, low or none. Default: any.
	Risk string `json:"risk,omitempty" jsonschema:"enum=critical,enum=high,enum=medium,enum=low,enum=none"`
	// Workspaces whose apps change: names, or patterns with `*`. Default: any, and apps of the fleet itself.
	Workspaces []string `json:"workspaces,omitempty"`
	// Users by their name on the forge.
	Users []string `json:"users,omitempty"`
	// Teams of GitHub, as org/team or team. GitLab asks no groups for reviews.
	Teams []string `json:"teams,omitempty"`
}

// Routine says which changes a team may merge without a reader: those of images that keep their repositories, and those
// of the patch versions of charts, if no rule and no caution speaks against them.
type Routine struct {
	// Images are patterns of repositories, such as `ghcr.io/acme/**`, whose tags and digests may change. Default: all.
	Images []string `json:"images,omitempty"`
	// Charts is patch or none: whether patch versions of charts are routine. Default: patch.
	Charts string `json:"charts,omitempty" jsonschema:"enum=patch,enum=none"`
	// Environments are names, or patterns with `*`, that a routine change may reach. Default: all.
	Environments []string `json:"environments,omitempty"`
	// Files are patterns of files that may change besides, such as `docs/**`.
	Files []string `json:"files,omitempty"`
}

// RoutineNone is the value of Routine.Charts for which no change of a chart is routine.
const RoutineNone = "none"

// Risk says how grave changes are in reports.
type Risk struct {
	// Production are the environments that serve users: names, or patterns with `*`. Fewer replicas are of high risk
	// there. Default: the environments that none comes after; where none comes after another, those whose names begin
	// with `prod`.
	Production []string `json:"production,omitempty"`
	// Levels sets the risks of effects, such as `replicas-cut: high`: critical, high, medium, low or none. The names are
	// those of docs/diff.md.
	Levels map[string]string `json:"levels,omitempty"`
}

// Charts says who must have signed remote charts.
type Charts struct {
	// Verify names signers: one of them must have signed each remote chart of an app that names none itself. Without
	// it, the charts of such apps need no signature.
	Verify []string `json:"verify,omitempty"`
	// Signers are the people and pipelines whose signatures count.
	Signers []ChartSigner `json:"signers,omitempty"`
}

// ChartSigner is a key or an identity whose signatures of charts count: provenance or cosign, exactly one of them.
type ChartSigner struct {
	// Name of the signer, for verify.
	Name string `json:"name" jsonschema:"required"`
	// Provenance is for Helm's provenance files, as `helm package --sign` makes them.
	Provenance *ProvenanceSigner `json:"provenance,omitempty"`
	// Cosign is for signatures of charts in OCI registries, as `cosign sign` makes them.
	Cosign *CosignSigner `json:"cosign,omitempty"`
}

// ProvenanceSigner signs Helm's provenance files.
type ProvenanceSigner struct {
	// Keyring is the path of a file with OpenPGP public keys, as `gpg --export` writes it.
	Keyring string `json:"keyring" jsonschema:"required"`
}

// CosignSigner signs with a key, or with an identity and without a key.
type CosignSigner struct {
	// Key is the path of a public key, as cosign writes it to cosign.pub.
	Key string `json:"key,omitempty"`
	// Issuer vouches for the identity, such as https://token.actions.githubusercontent.com.
	Issuer string `json:"issuer,omitempty"`
	// Subject is the identity: an email address, or the URI of a workflow.
	Subject string `json:"subject,omitempty"`
	// TrustedRoot is the path of Sigstore's trusted_root.json, which says which authorities and transparency logs
	// count.
	TrustedRoot string `json:"trustedRoot,omitempty"`
}

// Flux is for environments that Flux syncs.
type Flux struct {
	// ForceHookJobs adds the annotation kustomize.toolkit.fluxcd.io/force: enabled to Jobs that are hooks of Helm or
	// Argo CD, so that Flux replaces a changed Job, which is immutable, instead of failing. Default: false.
	ForceHookJobs bool `json:"forceHookJobs,omitempty"`
}

// Policy says what findings stop.
type Policy struct {
	// Enforce makes findings of severity error stop hydration of the environments that they concern. Default: true if
	// the fleet has rules under policy/.
	Enforce *bool `json:"enforce,omitempty"`
}

// Kinds are custom kinds by scope, written as Kind.group, such as ClusterExternalSecret.external-secrets.io.
type Kinds struct {
	// Cluster are cluster-scoped kinds: their objects get no namespace.
	Cluster []string `json:"cluster,omitempty"`
	// Namespaced are kinds whose objects get the app's namespace if they name none.
	Namespaced []string `json:"namespaced,omitempty"`
}

// Files are globs; `**` crosses directories.
type Files struct {
	// Clusters are globs of files with kind Cluster or ClusterClass. Default: clusters/*.yaml.
	Clusters []string `json:"clusters,omitempty"`
	// Apps are globs of files with kind App. Default: apps/*/app.yaml.
	Apps []string `json:"apps,omitempty"`
}

// Layer is a label key, and optionally paths of its own instead of the conventional folders. Written as a string it is
// the key alone.
type Layer struct {
	// Name is the label's key.
	Name string `json:"name" jsonschema:"required"`
	// Values are path templates of values files, such as charts/${app}/values-${environment}.yaml.
	Values []ValuesPath `json:"values,omitempty"`
	// Components are path templates of directories with a Kustomize component.
	Components []string `json:"components,omitempty"`
	// Repository is the name of another repository that the paths are in. Default: this one.
	Repository string `json:"repository,omitempty"`
	// Optional allows a label that no cluster has yet, which is an error otherwise. Default: false.
	Optional bool `json:"optional,omitempty"`
}

// ValuesPath is the path template of a values file. Written as a string it is the path alone.
type ValuesPath struct {
	// Path is a template, such as image-tags/${environment}/${app}.
	Path string `json:"path" jsonschema:"required"`
	// At is the key below which the file's content is put, such as image.tag. A file whose name does not end in .yaml,
	// .yml or .json is then one string, without the white space around it.
	At string `json:"at,omitempty"`
	// Repository is the name of another repository that the path is in. Default: that of the layer.
	Repository string `json:"repository,omitempty"`
}

// Strict turns checks off that are on by default.
type Strict struct {
	// DuplicateKeys refuses values files that set one key twice. Default: true; with false, the last one wins, as in
	// Helm.
	DuplicateKeys *bool `json:"duplicateKeys,omitempty"`
	// UnmatchedPatches refuses components with a patch that matches no object. Default: true.
	UnmatchedPatches *bool `json:"unmatchedPatches,omitempty"`
}

// Delivery is what `sluice bootstrap` prints for an app beyond the defaults. It changes nothing that is rendered.
type Delivery struct {
	// Project is the Argo CD project. Default: that of the command line.
	Project string `json:"project,omitempty"`
	// Annotations of the Application or Kustomization.
	Annotations map[string]string `json:"annotations,omitempty"`
	// SyncOptions of the Application, such as RespectIgnoreDifferences=true; one with the same name replaces the
	// default.
	SyncOptions []string `json:"syncOptions,omitempty"`
}

// Traffic names the label by which clusters get traffic: placements of apps and layers select by it.
type Traffic struct {
	// Label is the key of the label.
	Label string `json:"label" jsonschema:"required"`
	// Live is the value of a cluster that gets traffic, for a cluster that takes the place of another. Default: live.
	Live string `json:"live,omitempty"`
	// Standby is the value of a cluster that gets none. A cluster with another value, or without the label, may get
	// some. Default: standby.
	Standby string `json:"standby,omitempty"`
	// Exclusive means that two clusters must not have the traffic of one at the same time: the old one loses it before
	// the new one gets it. Default: false, the new one gets it first, and nothing is interrupted.
	Exclusive bool `json:"exclusive,omitempty"`
}

// Environment is one stage of the promotion graph.
type Environment struct {
	// Name of the environment, part of its branch's name.
	Name string `json:"name" jsonschema:"required"`
	// After are the environments that must run a commit first. Without it, the environment follows the trunk.
	After []string `json:"after,omitempty"`
	// Promotion says how commits come in.
	Promotion Promotion `json:"promotion,omitzero"`
	// Sync is the tool that applies the environment's cluster branches: argocd or flux. Default: that of the fleet.
	Sync string `json:"sync,omitempty" jsonschema:"enum=argocd,enum=flux"`
	// Policy says what findings stop in this environment. Default: that of the fleet.
	Policy Policy `json:"policy,omitzero"`
	// Isolated says that no network leads to the environment's clusters: a site with a Git server of its own moves their
	// branches, and says in receipts what they run.
	Isolated *Isolated `json:"isolated,omitempty"`
}

// Promotion says how commits come into an environment.
type Promotion struct {
	// Mode is auto (as soon as gates hold), manual (a command) or request (a merge request on the environment branch).
	Mode string `json:"mode,omitempty" jsonschema:"enum=auto,enum=manual,enum=request"`
	// Bake is how long the environments before this one must have run the commit.
	Bake Duration `json:"bake,omitempty"`
	// Health is what must hold all that time.
	Health Health `json:"health,omitzero"`
	// Windows are the only times at which promotions go in.
	Windows []Window `json:"windows,omitempty"`
	// Freezes are times at which no promotion goes in.
	Freezes []Freeze `json:"freezes,omitempty"`
	// Approvers must agree.
	Approvers Approvers `json:"approvers,omitzero"`
	// Waves are ordered parts of the environment's clusters.
	Waves []Wave `json:"waves,omitempty"`
	// AvoidTogether are label keys: two clusters with the same value of one of them never move at once.
	AvoidTogether []string `json:"avoidTogether,omitempty"`
	// Settle is how long the clusters of one step have moved before the next step of a wave follows, where maxParallel
	// or avoidTogether make several. Default: 5m without health and checks, else none: then health tells.
	Settle Duration `json:"settle,omitempty"`
	// Checks are asked while waves go on; like statuses, they must be green.
	Checks []Check `json:"checks,omitempty"`
	// Gates are conditions of your own, in the Common Expression Language. A promotion begins when all are true.
	Gates []GateExpression `json:"gates,omitempty"`
	// OnFailure is halt or rollback: what to do when health turns red while a promotion goes on. Default: halt.
	OnFailure string `json:"onFailure,omitempty" jsonschema:"enum=halt,enum=rollback"`
	// OnWorkspaceFailure is rollback: a workspace whose apps alone turn red goes back, and the promotion continues
	// without its changes. A workspace that alone is red in an environment before is left out. Default: such a failure
	// is one of the whole environment.
	OnWorkspaceFailure string `json:"onWorkspaceFailure,omitempty" jsonschema:"enum=rollback"`
	// RestartBake lets a newer commit take the place of one that still bakes or goes through waves. Default: false.
	RestartBake bool `json:"restartBake,omitempty"`
	// Rights say who may give which command. Default: people with the role maintain or admin on the source repository.
	Rights []Rights `json:"rights,omitempty"`
}

// GateExpression is a condition of a promotion.
type GateExpression struct {
	// Name of the gate, unique in its environment. People see it as gate/NAME.
	Name string `json:"name" jsonschema:"required"`
	// Expr is true or false: `upstreams.dev.soak >= duration("24h")`.
	Expr string `json:"expr" jsonschema:"required"`
	// Message says why the promotion waits while the expression is false. Default: the parts that are false.
	Message string `json:"message,omitempty"`
	// Unavailable says why the expression of another repository is not known; "" if it is.
	Unavailable string `json:"-"`
}

// Check asks a system outside whether all is well: an HTTP address or a Prometheus query, exactly one of them.
type Check struct {
	// Name of the check, unique in its environment.
	Name string `json:"name" jsonschema:"required"`
	// HTTP asks an address.
	HTTP *HTTPCheck `json:"http,omitempty"`
	// Prometheus asks for a query's value.
	Prometheus *PrometheusCheck `json:"prometheus,omitempty"`
}

// HTTPCheck is green if the answer has the status.
type HTTPCheck struct {
	// URL to get, without credentials.
	URL string `json:"url" jsonschema:"required"`
	// Status of a good answer. Default: 200.
	Status int `json:"status,omitempty" jsonschema:"minimum=100,maximum=599"`
}

// PrometheusCheck is green if the query has a result and each of its values is above 0, as `errors < 5` has with bool.
type PrometheusCheck struct {
	// URL of the server, without credentials.
	URL string `json:"url" jsonschema:"required"`
	// Query in PromQL.
	Query string `json:"query" jsonschema:"required"`
}

// Rights allow some people some commands.
type Rights struct {
	// Verbs of commands: approve, promote, now (of promote), rollback, freeze, unfreeze, halt, resume. Default: all but
	// now.
	Verbs []string `json:"verbs,omitempty"`
	// Users by their name on the forge.
	Users []string `json:"users,omitempty"`
	// Teams (GitHub, Gitea) or groups (GitLab).
	Teams []string `json:"teams,omitempty"`
	// Roles in the source repository: read, write, maintain, admin. A higher role has what a lower one has.
	Roles []string `json:"roles,omitempty"`
	// SecondPerson requires the approval of a second person, who does not give the command.
	SecondPerson bool `json:"secondPerson,omitempty"`
}

// Health is judged by the statuses that others write on the rendered commits.
type Health struct {
	// CommitStatuses are patterns of status names that must be green; * stands for any text, ? for one character,
	// ${app} for each app that the cluster has.
	CommitStatuses []string `json:"commitStatuses,omitempty"`
	// Healthy is the share of clusters that must be green, such as 100%.
	Healthy string `json:"healthy,omitempty" jsonschema:"pattern=^[0-9]{1\\,3}%$"`
}

// Window is a time span of some days.
type Window struct {
	// Days of the week: Mon, Tue, Wed, Thu, Fri, Sat, Sun. Without days and dates: every day.
	Days []string `json:"days,omitempty"`
	// Dates are single days, such as 2026-12-24.
	Dates []string `json:"dates,omitempty"`
	// Deny closes the time span instead of opening it; it wins over every other window.
	Deny bool `json:"deny,omitempty"`
	// From is the time of day at which the window opens, as hh:mm.
	From string `json:"from" jsonschema:"required"`
	// To is the time of day at which it closes, as hh:mm.
	To string `json:"to" jsonschema:"required"`
	// TimeZone by its IANA name. Default: UTC.
	TimeZone string `json:"timeZone,omitempty"`
}

// Freeze is a span of time without promotions.
type Freeze struct {
	// From is when it begins, such as 2026-12-20T00:00:00Z.
	From string `json:"from" jsonschema:"required,format=date-time"`
	// To is when it ends.
	To string `json:"to" jsonschema:"required,format=date-time"`
	// Reason is shown with promotions that wait for the freeze.
	Reason string `json:"reason,omitempty"`
}

// Approvers are people who must agree to a promotion.
type Approvers struct {
	// Users by their name on the forge.
	Users []string `json:"users,omitempty"`
	// Teams (GitHub, Gitea) or groups (GitLab).
	Teams []string `json:"teams,omitempty"`
	// Count of approvals needed.
	Count int `json:"count,omitempty" jsonschema:"minimum=0"`
}

// Wave is a part of an environment's clusters, whose branches move together.
type Wave struct {
	// Name of the wave.
	Name string `json:"name" jsonschema:"required"`
	// Clusters selects by labels.
	Clusters *Selector `json:"clusters,omitempty"`
	// Percent of the environment's clusters.
	Percent int `json:"percent,omitempty" jsonschema:"minimum=0,maximum=100"`
	// Count of clusters.
	Count int `json:"count,omitempty" jsonschema:"minimum=0"`
	// MaxParallel bounds how many cluster branches move at once.
	MaxParallel int `json:"maxParallel,omitempty" jsonschema:"minimum=0"`
	// Bake is how long the wave must hold before the next one starts.
	Bake Duration `json:"bake,omitempty"`
}

// Output says what the branches look like and where they live.
type Output struct {
	// EnvironmentBranch is a template. Default: env/${environment}.
	EnvironmentBranch string `json:"environmentBranch,omitempty"`
	// ClusterBranch is a template. Default: cluster/${cluster.name}.
	ClusterBranch string `json:"clusterBranch,omitempty"`
	// Repository is the URL of another repository for the branches, or oci://REGISTRY/PATH for a registry that has them.
	// Default: the source repository.
	Repository string `json:"repository,omitempty"`
	// Namespaces is explicit (objects name their namespace) or asRendered. Default: explicit.
	Namespaces string `json:"namespaces,omitempty" jsonschema:"enum=explicit,enum=asRendered"`
	// HydratorMetadata is the URL of the source repository. With it, environment branches have a file
	// hydrator.metadata, as Argo CD's source hydrator writes it and GitOps Promoter reads it.
	HydratorMetadata string `json:"hydratorMetadata,omitempty"`
	// Committer of rendered commits.
	Committer Person `json:"committer,omitzero"`
	// OCI publishes what cluster branches have in a registry, too.
	OCI *OCIOutput `json:"oci,omitempty"`
}

// OCIOutput says where the artifacts of clusters are in a registry.
type OCIOutput struct {
	// Repository is oci://REGISTRY/PATH, or oci://REGISTRY. The artifact of a cluster is in the repository
	// PATH/<fleet>/<cluster> of the registry.
	Repository string `json:"repository" jsonschema:"required"`
	// Tag moves with the cluster branch. Default: latest.
	Tag string `json:"tag,omitempty"`
	// WaveTags gives each artifact a second tag that moves with the cluster branch, <environment>-<wave>, or
	// <environment> where there are no waves.
	WaveTags bool `json:"waveTags,omitempty"`
	// Key is the path of a public key, as cosign writes it to cosign.pub. With it, runs sign artifacts with the private
	// key of their environment.
	Key string `json:"key,omitempty"`
	// Identity is who signs artifacts without a key.
	Identity *ArtifactIdentity `json:"identity,omitempty"`
}

// ArtifactIdentity is an identity that signs artifacts without a key: Sigstore gives it a certificate for a token of
// OpenID Connect.
type ArtifactIdentity struct {
	// Issuer vouches for the identity, such as https://token.actions.githubusercontent.com.
	Issuer string `json:"issuer" jsonschema:"required"`
	// Subject is the identity: the URI of a workflow, or an email address.
	Subject string `json:"subject" jsonschema:"required"`
	// TrustedRoot is the path of Sigstore's trusted_root.json, which says which authorities and transparency logs
	// count.
	TrustedRoot string `json:"trustedRoot" jsonschema:"required"`
}

// Person is a committer.
type Person struct {
	// Name of the committer. Default: Sluice.
	Name string `json:"name,omitempty"`
	// Email of the committer. Default: sluice@localhost.
	Email string `json:"email,omitempty"`
}

// Safety bounds what one hydration may take away.
type Safety struct {
	// MaxDeletions is a count of objects, or a share of an environment's objects such as 20%. Default: 20%, at least
	// 10.
	MaxDeletions Amount `json:"maxDeletions,omitempty"`
}

// Duration is a time span such as 30m, 2h or 1h30m.
type Duration string

// Amount is a count or a percentage, such as 10 or 20%.
type Amount string
