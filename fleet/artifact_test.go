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
		`{repository: "oci://registry.example.com/X"}`:                                                         "is not a place",
		`{repository: "oci://registry.example.com/x:v1"}`:                                                      "is not a place",
		`{repository: "oci://registry.example.com//x"}`:                                                        "is not a place",
		`{repository: "oci://registry.example.com/../x"}`:                                                      "is not a place",
		`{repository: "oci://registry.example.com/x?a=b"}`:                                                     "is not a place",
		`{repository: "oci://me:secret@registry.example.com/x"}`:                                               "must not hold credentials",
		`{repository: "oci://r.example.com/x", key: "../x"}`:                                                   `../x`,
		`{repository: "oci://r.example.com/x", tag: dev, waveTags: true}`:                                      `"dev" cannot be the second tag`,
		`{repository: "oci://r.example.com/x", identity: {issuer: a}}`:                                         "identity.subject is missing",
		`{repository: "oci://r.example.com/x", key: k.pub, identity: {issuer: a, subject: b, trustedRoot: c}}`: "not both",
		`{repository: "oci://r.example.com/x", identity: {issuer: a, subject: b, trustedRoot: ../c}}`:          "../c",
		`{repository: "oci://r.example.com/x", tag: "a b"}`:                                                    `"a b" cannot be the tag`,
		`{repository: "oci://r.example.com/x", tag: "` + strings.Repeat("0", 40) + `"}`:                        "cannot be the tag",
		`{repository: "oci://r.example.com/x", tag: "sha256-abc"}`:                                             "cannot be the tag",
		`{repository: "oci://r.example.com/` + long + `"}`:                                                     "registries do not accept",
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

// A registry with the branches has the artifacts, too, and no forge.
func TestOutputRegistry(t *testing.T) {
	for name, c := range map[string]struct{ output, given, branches, artifacts string }{
		"Git":              {`{repository: "https://git.example.com/x"}`, "", "", ""},
		"a registry":       {`{repository: "oci://r.example.com/g/"}`, "", "oci://r.example.com/g/acme", "oci://r.example.com/g/acme"},
		"two registries":   {`{repository: "oci://r.example.com/g", oci: {repository: "oci://s.example.com"}}`, "", "oci://r.example.com/g/acme", "oci://s.example.com/acme"},
		"another for once": {`{repository: "https://git.example.com/x", oci: {repository: "oci://s.example.com", tag: now}}`, "oci://r.example.com/g", "oci://r.example.com/g/acme", "oci://r.example.com/g/acme"},
		"one for once":     {`{}`, "oci://r.example.com/g", "oci://r.example.com/g/acme", "oci://r.example.com/g/acme"},
	} {
		files := small()
		files["sluice.yaml"] = fleetYAML + "  output: " + c.output + "\n"
		cache := NewCache()
		f, problems := Loader{Cache: cache, Output: c.given}.Load(t.Context(), mapFS(files))
		if f == nil {
			t.Fatalf("%s: %v", name, problems.Err())
		}
		if f.OutputRegistry() != c.branches || f.Artifacts() != c.artifacts {
			t.Errorf("%s: branches in %q, artifacts in %q", name, f.OutputRegistry(), f.Artifacts())
		}
		if name == "another for once" && f.ArtifactTag() != "now" {
			t.Errorf("%s: the tag is %s", name, f.ArtifactTag())
		}
		if f, _ := (Loader{Cache: cache}).Load(t.Context(), mapFS(files)); strings.Contains(c.output, "s.example.com") && f.Artifacts() != "oci://s.example.com/acme" {
			t.Errorf("%s: the place of one run stays in the cache: %s", name, f.Artifacts())
		}
	}
	for output, want := range map[string]string{
		`{repository: "oci://r.example.com/X"}`:   `"oci://r.example.com/X" is not a place in a registry`,
		`{repository: "oci://a:b@r.example.com"}`: "credentials",
	} {
		files := small()
		files["sluice.yaml"] = fleetYAML + "  output: " + output + "\n"
		if _, problems := Load(t.Context(), mapFS(files), NewCache()); problems.Err() == nil || !strings.Contains(problems.Err().Error(), want) {
			t.Errorf("%s: %v", output, problems.Err())
		}
	}
}
