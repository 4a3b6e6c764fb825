package fleet

import (
	"strings"
	"testing"
)

func TestArtifacts(t *testing.T) {
	files := small()
	f := load(t, files)
	c, _ := f.Cluster("a")
	if f.Publishes() || f.Artifact(c) != "" || f.Artifacts() != "" || f.ArtifactTag() != "" {
		t.Error("a fleet without spec.output.oci has artifacts")
	}
	for repository, want := range map[string]string{
		"oci://registry.example.com/gitops":    "oci://registry.example.com/gitops/acme",
		"oci://registry.example.com/gitops/":   "oci://registry.example.com/gitops/acme",
		"oci://registry.example.com:5000":      "oci://registry.example.com:5000/acme",
		"oci://localhost:5000/a/b__c/d.e/f--g": "oci://localhost:5000/a/b__c/d.e/f--g/acme",
	} {
		files["sluice.yaml"] = fleetYAML + "  output: {oci: {repository: \"" + repository + "\"}}\n"
		f := load(t, files)
		c, _ := f.Cluster("a")
		if f.Artifacts() != want || f.Artifact(c) != want+"/a" || f.ArtifactTag() != "latest" {
			t.Errorf("%s: the artifacts are %s, %s:%s", repository, f.Artifacts(), f.Artifact(c), f.ArtifactTag())
		}
	}
}

func TestArtifactsAreChecked(t *testing.T) {
	long := strings.Repeat("x", 240)
	for output, want := range map[string]string{
		`{}`:                                     "sluice.yaml:9:17: error: spec.output.oci.repository is missing",
		`{repository: "registry.example.com/x"}`: `"registry.example.com/x" is not a place`,
		`{repository: "oci://"}`:                 "is not a place",
		`{repository: "oci://registry.example.com/X"}`:                                  "is not a place",
		`{repository: "oci://registry.example.com/x:v1"}`:                               "is not a place",
		`{repository: "oci://registry.example.com//x"}`:                                 "is not a place",
		`{repository: "oci://registry.example.com/../x"}`:                               "is not a place",
		`{repository: "oci://registry.example.com/x?a=b"}`:                              "is not a place",
		`{repository: "oci://me:secret@registry.example.com/x"}`:                        "must not hold credentials",
		`{repository: "oci://r.example.com/x", key: "../x"}`:                            `../x`,
		`{repository: "oci://r.example.com/x", tag: "a b"}`:                             `"a b" cannot be the tag`,
		`{repository: "oci://r.example.com/x", tag: "` + strings.Repeat("0", 40) + `"}`: "cannot be the tag",
		`{repository: "oci://r.example.com/x", tag: "sha256-abc"}`:                      "cannot be the tag",
		`{repository: "oci://r.example.com/` + long + `"}`:                              "registries do not accept",
	} {
		files := small()
		files["sluice.yaml"] = fleetYAML + "  output: {oci: " + output + "}\n"
		_, problems := Load(t.Context(), mapFS(files), NewCache())
		if err := problems.Err(); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "me:secret") {
			t.Errorf("%s: the error is %v, want %s", output, err, want)
		}
	}
	for name, change := range map[string]func(map[string]string){
		"the cluster": func(f map[string]string) { f["clusters/x.yaml"] = cluster("a.-b", "dev", "edge", "eu", "{}") },
		"the name of the fleet": func(f map[string]string) {
			f["sluice.yaml"] = strings.Replace(f["sluice.yaml"], "{name: ", "{name: A-", 1)
		},
	} {
		files := small()
		files["sluice.yaml"] = fleetYAML + "  output: {oci: {repository: \"oci://r.example.com/x\"}}\n"
		change(files)
		_, problems := Load(t.Context(), mapFS(files), NewCache())
		if err := problems.Err(); err == nil || !strings.Contains(err.Error(), "registries do not accept") {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
}
