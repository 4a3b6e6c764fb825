package fleet

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// kubectlOutput is what `kubectl version && kubectl api-versions && kubectl api-resources` prints.
const kubectlOutput = `Client Version: v1.36.1
Kustomize Version: v5.7.1
Server Version: v1.34.2+k3s1
apps/v1
monitoring.coreos.com/v1
v1
NAME                SHORTNAMES   APIVERSION                 NAMESPACED   KIND
bindings                         v1                         true         Binding
deployments         deploy       apps/v1                    true         Deployment
servicemonitors     smon         monitoring.coreos.com/v1   true         ServiceMonitor
clusterroles                     rbac.authorization.k8s.io/v1 false      ClusterRole
`

const header = "NAME SHORTNAMES APIVERSION NAMESPACED KIND\n"

func TestParseCapabilities(t *testing.T) {
	t.Parallel()
	got, err := parseCapabilities(kubectlOutput)
	want := []string{
		"apps/v1", "apps/v1/Deployment", "monitoring.coreos.com/v1",
		"monitoring.coreos.com/v1/ServiceMonitor", "rbac.authorization.k8s.io/v1/ClusterRole", "v1", "v1/Binding",
	}
	if err != nil || got.KubeVersion != "1.34.2+k3s1" || !slices.Equal(got.APIVersions, want) {
		t.Errorf("capabilities: got %+v, %v, want 1.34.2+k3s1 with %q", got, err, want)
	}
	old, err := parseCapabilities("Server Version: version.Info{Major:\"1\", Minor:\"24\", GitVersion:\"v1.24.1\", GitCommit:\"3ddd\"}\nv1\n" + header)
	if err != nil || old.KubeVersion != "1.24.1" {
		t.Errorf("version of kubectl before 1.28: got %+v, %v, want 1.24.1", old, err)
	}
	for text, want := range map[string]string{
		"":                              "the version of the server is missing",
		"Client Version: v1.36.1\nv1\n": "the version of the server is missing",
		"Server Version: v1.34.2\n":     "api-versions` is missing",
		"Server Version: v1.34.2\nv1\n": "api-resources` is missing",
		"Server Version: v1.34.2\nv1\nerror: something\n":       "line 3",
		"Server Version: v1.34.2\nv1\n<script>x</script>\n":     "line 3",
		"Server Version: v1.34.2\nv1\npods po v1 maybe Pod\n":   "line 3",
		"Server Version: v1..2\nv1\n" + header:                  "is not a version",
		"Unable to connect to the server: EOF\nv1\napps/v1\n\n": "line 1",
	} {
		if got, err := parseCapabilities(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %+v, %v, want an error with %q", text, got, err, want)
		}
	}
}

// A file of no cluster is a warning, with the name that nothing has.
func TestUnusedCapabilities(t *testing.T) {
	t.Parallel()
	files := small()
	files["capabilities/A.txt"], files["capabilities/README.md"] = kubectlOutput, "# how"
	_, problems := Load(t.Context(), mapFS(files), NewCache())
	if len(problems) != 1 || problems[0].Severity != SeverityWarning || problems[0].File != "capabilities/A.txt" ||
		!strings.Contains(problems[0].Message, `there is no cluster "A"`) {
		t.Errorf("the problems are %v, want a warning for the file of the cluster A", problems)
	}
}

func TestAPIVersions(t *testing.T) {
	t.Parallel()
	for api, valid := range map[string]bool{
		"v1": true, "v1/Pod": true, "apps/v1": true, "monitoring.coreos.com/v1beta1/ServiceMonitor": true,
		"": false, "x y": false, "apps": false, "apps/v1/": false, "apps/v1/deployments": false, "a/b/v1/Kind": false,
	} {
		if err := CheckAPIVersion(api); (err == nil) != valid {
			t.Errorf("%q: the error is %v, want valid %t", api, err, valid)
		}
	}
}

func TestCapabilitiesOfAFile(t *testing.T) {
	t.Parallel()
	files := small()
	files["capabilities/a.txt"] = kubectlOutput
	f := load(t, files)
	a, b := f.clusters["a"], f.clusters["b"]
	if a.KubeVersion != "1.34.2+k3s1" || !slices.Contains(a.APIVersions, "monitoring.coreos.com/v1/ServiceMonitor") {
		t.Errorf("cluster with a file: got %s and %q, want the file's version, not the class's, and its APIs",
			a.KubeVersion, a.APIVersions)
	}
	if b.KubeVersion != "1.33.2" || len(b.APIVersions) != 0 {
		t.Errorf("cluster without a file: got %s and %q, want those of its class", b.KubeVersion, b.APIVersions)
	}

	// Each form of a change affects the cluster's targets, and the file is claimed.
	without, other := small(), maps.Clone(files)
	other["capabilities/a.txt"] += "prometheusrules promrule monitoring.coreos.com/v1 true PrometheusRule\n"
	for what, base := range map[string]map[string]string{"added": without, "edited": other} {
		changed := []string{"capabilities/a.txt"}
		got := Affected(load(t, base), f, changed, func(*Fleet, Source) []string { return nil })
		if len(got) != 1 || got[0].Cluster != "a" {
			t.Errorf("%s file: affected targets: got %+v, want those of cluster a", what, got)
		}
		reach := func(*Fleet, Source) []string { return nil }
		if claim := Claims(load(t, base), f, changed, reach)[changed[0]]; claim != ClaimedByDeclaration {
			t.Errorf("%s file: got claim %q, want %q", what, claim, ClaimedByDeclaration)
		}
	}
	if moved, _ := Moved(load(t, without), mapFS(files), NewCache(), nil,
		[]string{"capabilities/a.txt"}); moved != nil {
		t.Error("a fleet was taken from a commit without the file of capabilities")
	}

	// A version of the cluster itself must agree.
	files["clusters/a.yaml"] = strings.Replace(files["clusters/a.yaml"], "spec: {", "spec: {kubeVersion: 1.34, ", 1)
	files["clusters/a.yaml"] = strings.Replace(files["clusters/a.yaml"], "1.34", `"1.34"`, 1)
	if got := load(t, files).clusters["a"].KubeVersion; got != "1.34.2+k3s1" {
		t.Errorf("version of the file beside the same minor: got %s, want the file's", got)
	}
	declared := files["clusters/a.yaml"]
	files["clusters/a.yaml"] = strings.Replace(declared, `"1.34"`, `"1.3"`, 1)
	_, problems := Load(t.Context(), mapFS(files), NewCache())
	if err := problems.Err(); err == nil || !strings.Contains(err.Error(),
		"the cluster a has kubeVersion 1.3, and capabilities/a.txt says 1.34.2+k3s1") {
		t.Errorf("a version that only begins with the same digits: got %v, want an error", err)
	}
	files["clusters/a.yaml"] = strings.Replace(declared, `"1.34"`, "1.31.0", 1)
	_, problems = Load(t.Context(), mapFS(files), NewCache())
	if err := problems.Err(); err == nil || !strings.Contains(err.Error(), "clusters/a.yaml:4:") ||
		!strings.Contains(err.Error(),
			"the cluster a has kubeVersion 1.31.0, and capabilities/a.txt says 1.34.2+k3s1") {
		t.Errorf("two versions: got %v, want an error in clusters/a.yaml", err)
	}
	files["capabilities/a.txt"] = "Server Version: v1.34.2\n"
	_, problems = Load(t.Context(), mapFS(files), NewCache())
	if err := problems.Err(); err == nil || !strings.Contains(err.Error(), "capabilities/a.txt") ||
		!strings.Contains(err.Error(), "sluice capabilities a") {
		t.Errorf("the output of a call that failed: got %v, want an error with the next step", err)
	}
}

// Charts on clusters of which no version is known see the newest one; other clusters keep their digests.
func TestDefaultVersion(t *testing.T) {
	t.Parallel()
	if got := (&Cluster{}).ChartVersion(); got != NewestKubeVersion {
		t.Errorf("version that charts see without one: got %s, want %s", got, NewestKubeVersion)
	}
	f, problems := Loader{Assumed: Capabilities{
		KubeVersion: "1.30.0",
		APIVersions: []string{"x.org/v1"},
	}}.Load(t.Context(), mapFS(small()))
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	for _, c := range f.Clusters {
		if c.ChartVersion() != "1.30.0" || !slices.Contains(c.APIVersions, "x.org/v1") {
			t.Errorf("assumed capabilities of %s: got %s and %q, want 1.30.0 and x.org/v1", c.Name, c.ChartVersion(),
				c.APIVersions)
		}
	}
}
