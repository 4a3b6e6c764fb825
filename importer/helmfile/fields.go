package helmfile

// class says what becomes of a field.
type class int

const (
	supported class = iota
	resolved        // helmfile has applied it before it printed the state
	applied         // how helm applies a release
	fetched         // how helm fetches a chart
	listed          // has no counterpart; the release is converted without it
	refused         // the release is left out
)

// reasons say why the fields of a class are not carried over.
func reasons() map[class]string {
	return map[class]string{
		applied: "it says how helm applies a release: the tool that syncs the branches decides",
		fetched: "it says how helm fetches charts: credentials and trust come from the files of Helm and Docker, signatures from spec.charts",
	}
}

// field is a field of a state, or of a release.
type field struct {
	class  class
	reason string // of listed and refused fields
}

const (
	whenRendered = "helmfile changes the rendered objects with it: write it as a layer with a Kustomize component"
	whenRun      = "it runs when helmfile runs: a pipeline must run it"
)

// releaseFields are the fields of helmfile's ReleaseSpec.
func releaseFields() map[string]field {
	out := map[string]field{
		"labels": {listed, "only selectors of helmfile use them"},
		"secrets": {
			listed,
			"Sluice decrypts nothing: let the cluster create the Secret, and refer to it in the values",
		},
		"env":          {listed, "its values are variables of the environment in which helmfile runs"},
		"hooks":        {listed, whenRun},
		"unitTests":    {listed, whenRun},
		"enableDNS":    {listed, "rendering has no network"},
		"reuseValues":  {listed, "rendering does not read the values of the release in the cluster"},
		"transformers": {refused, whenRendered},
		"dependencies": {refused, "helmfile adds them to the chart: add them to Chart.yaml"},

		"forceNamespace": {refused, "helmfile changes the namespace of the rendered objects: use a chart that sets it"},
		"forceGoGetter": {
			refused,
			"the chart is fetched from a URL: add it to the repository, or declare the repository that has it",
		},
		"postRenderer": {
			refused,
			"it is a program that changes the rendered objects: write its effect as a layer with a Kustomize component",
		},
	}
	add(out, supported, "name", "namespace", "chart", "version", "values", "set", "setString", "needs", "installed",
		"kubeContext", "apiVersions",
		"kubeVersion", "skipSchemaValidation", "missingFileHandler", "valuesPathPrefix", "jsonPatches",
		"strategicMergePatches", "devel", "condition")
	add(out, resolved, "inherit", "valuesTemplate", "setTemplate", "verifyTemplate", "waitTemplate",
		"installedTemplate", "conditionTemplate",
		"missingFileHandlerConfig",
		"chartPath") // where helmfile has put the chart
	add(out, applied, "wait", "waitRetries", "waitForJobs", "timeout", "recreatePods", "force", "updateStrategy",
		"atomic", "rollbackOnFailure",
		"cleanupOnFail", "forceConflicts", "historyMax", "createNamespace", "disableOpenAPIValidation",
		"disableValidation", "disableValidationOnInstall",
		"description", "adopt", "cascade", "suppressOutputLineRegex", "disableAutoDetectedKubeVersionForDiff",
		"suppressDiff", "deleteWait", "deleteTimeout",
		"syncReleaseLabels", "takeOwnership", "serverSide", "trackMode", "trackTimeout", "trackLogs", "trackFailedLogs",
		"helmStuckGrace", "trackKinds",
		"skipKinds", "trackResources", "kubedogQPS", "kubedogBurst", "trackFailOnError", "postRendererArgs")
	add(out, fetched, "verify", "keyring", "insecureSkipTLSVerify", "plainHttp", "skipDeps", "skipRefresh",
		"resolveOCIVersions", "directory")
	return out
}

// stateFields are the fields of helmfile's HelmState. Those of helmDefaults are in defaultFields.
func stateFields() map[string]field {
	out := map[string]field{"hooks": {listed, whenRun}}
	add(out, supported, "kubeContext", "namespace", "repositories", "releases", "helmDefaults", "apiVersions",
		"kubeVersion", "missingFileHandler")
	add(out, resolved, "helmBinary", "kustomizeBinary", "values", "environments", "bases", "helmfiles", "commonLabels",
		"llm", "templates",
		"defaultInherit", "missingFileHandlerConfig", "lockFilePath", "filepath", "renderedvalues")
	out["chart"] = field{refused, "it replaces the charts of all releases"}
	return out
}

// defaultFields are the fields of helmDefaults.
func defaultFields() map[string]field {
	out := map[string]field{
		"args":         {listed, "they are passed to every helm command: write what they set as values"},
		"templateArgs": {listed, "they are passed to helm template: write what they set as values"},
		"diffArgs":     {applied, ""},
		"syncArgs":     {listed, "they are passed to helm upgrade: write what they set as values"},
		"enableDNS":    {listed, "rendering has no network"},
		"reuseValues":  {listed, "rendering does not read the values of the release in the cluster"},
		"postRenderer": {
			refused,
			"it is a program that changes the rendered objects: write its effect as a layer with a Kustomize component",
		},
	}
	add(out, supported, "kubeContext", "skipCRDs", "skipSchemaValidation", "devel")
	for name, f := range releaseFields() {
		if _, known := out[name]; !known && (f.class == applied || f.class == fetched) {
			out[name] = f
		}
	}
	return out
}

func add(to map[string]field, c class, names ...string) {
	for _, name := range names {
		to[name] = field{class: c}
	}
}
