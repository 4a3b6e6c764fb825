package gitops

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart/loader"
	helmutil "helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/cli/values"
	"helm.sh/helm/v3/pkg/release"
	"sigs.k8s.io/kustomize/api/krusty"
	kustomize "sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// helmfileRelease is what helmfile passes to helm.
type helmfileRelease struct {
	Name, Namespace, Chart, KubeVersion string
	APIVersions                         []string
	Installed                           *bool
	Condition                           string
	Values                              []map[string]any
	Set, SetString                      []struct{ Name, Value, File string }
	JSONPatches                         []struct{ Target, Patch any } `json:"jsonPatches"`
	StrategicMergePatches               []any                         `json:"strategicMergePatches"`
	Transformers                        []any
}

// template renders a release with Helm's library, as `helmfile template --include-crds` calls helm.
func (r *helmfileRelease) template(t *testing.T, dir string) map[string]string {
	t.Helper()
	var options values.Options
	for i, v := range r.Values {
		text, err := yaml.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(t.TempDir(), fmt.Sprintf("values-%d.yaml", i))
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
		options.ValueFiles = append(options.ValueFiles, name)
	}
	escape := strings.NewReplacer("{", `\{`, "}", `\}`, ",", `\,`)
	for _, s := range r.Set {
		if s.File != "" {
			options.FileValues = append(options.FileValues, s.Name+"="+filepath.Join(dir, s.File))
			continue
		}
		options.Values = append(options.Values, escape.Replace(s.Name)+"="+escape.Replace(s.Value))
	}
	for _, s := range r.SetString {
		options.StringValues = append(options.StringValues, escape.Replace(s.Name)+"="+escape.Replace(s.Value))
	}
	merged, err := options.MergeValues(nil)
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := loader.LoadDir(filepath.Join(dir, r.Chart))
	if err != nil {
		t.Fatal(err)
	}
	install := action.NewInstall(&action.Configuration{})
	install.DryRun, install.ClientOnly, install.IncludeCRDs = true, true, true
	install.ReleaseName, install.Namespace, install.APIVersions = r.Name, r.Namespace, r.APIVersions
	if install.KubeVersion, err = helmutil.ParseKubeVersion(r.KubeVersion); err != nil {
		t.Fatal(err)
	}
	done, err := install.RunWithContext(t.Context(), loaded, merged)
	if err != nil {
		t.Fatal(err)
	}
	text := done.Manifest
	for _, h := range done.Hooks {
		if len(h.Events) != 1 || h.Events[0] != release.HookTest {
			text += "\n---\n" + h.Manifest
		}
	}
	out := map[string]string{}
	for document := range strings.SplitSeq(r.patched(t, text), "\n---\n") {
		if strings.TrimSpace(document) != "" {
			id, content := identity(t, []byte(document))
			out[id] = content
		}
	}
	return out
}

// patched applies patches with Kustomize, as helmfile does before it calls helm.
func (r *helmfileRelease) patched(t *testing.T, text string) string {
	t.Helper()
	if len(r.JSONPatches)+len(r.StrategicMergePatches) == 0 {
		return text
	}
	var patches []any
	for _, p := range r.JSONPatches {
		patch, err := yaml.Marshal(p.Patch)
		if err != nil {
			t.Fatal(err)
		}
		patches = append(patches, map[string]any{"target": p.Target, "patch": string(patch)})
	}
	for _, p := range r.StrategicMergePatches {
		patch, err := yaml.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		patches = append(patches, map[string]any{"patch": string(patch)})
	}
	k, err := yaml.Marshal(map[string]any{"resources": []string{"all.yaml"}, "patches": patches})
	if err != nil {
		t.Fatal(err)
	}
	disk := filesys.MakeFsInMemory()
	for name, data := range map[string][]byte{"/kustomization.yaml": k, "/all.yaml": []byte(text)} {
		if err := disk.WriteFile(name, data); err != nil {
			t.Fatal(err)
		}
	}
	options := krusty.MakeDefaultOptions()
	options.PluginConfig = kustomize.DisabledPluginConfig()
	built, err := krusty.MakeKustomizer(options).Run(disk, "/")
	if err != nil {
		t.Fatal(err)
	}
	out, err := built.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// The objects of converted releases equal what Helm renders with the values of the states, with values files that stay
// where they are and with embedded ones.
func TestHelmfileEqualsHelm(t *testing.T) {
	script, err := os.ReadFile("../../testdata/script/import_helmfile.txtar")
	if err != nil {
		t.Fatal(err)
	}
	environments := []string{"staging", "prod"}
	for name, kinds := range map[string][]string{"embedded": {".yaml"}, "named": {".plain.yaml", ".yaml"}} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			unpack(t, dir, string(script))
			repo := filepath.Join(dir, "repo")
			if name == "embedded" { // else the conversion is refused: its state has the secret of this file
				if err := os.Remove(filepath.Join(repo, "values/db.yaml")); err != nil {
					t.Fatal(err)
				}
			}
			args := []string{"import", "helmfile", "--repo", repo}
			for _, environment := range environments {
				for _, kind := range kinds {
					args = append(args, "--state", environment+"="+filepath.Join(dir, "states", environment+kind))
				}
			}
			c := exec.CommandContext(t.Context(), binary, args...)
			c.Env = append(os.Environ(), "HOME="+t.TempDir(), "SLUICE_OFFLINE=1")
			if out, err := c.CombinedOutput(); !strings.Contains(string(out), "1 release left out") {
				t.Fatalf("%v\n%s", err, out)
			}
			releases, all := 0, 0
			for _, environment := range environments {
				n, equal := compareHelmfile(t, repo, filepath.Join(dir, "states", environment+".yaml"), environment+
					"-1", name == "named")
				releases, all = releases+n, all+equal
			}
			t.Logf("%d releases, %d objects compared", releases, all)
			if releases != 5 || all != 7 {
				t.Errorf("compared %d releases and %d objects", releases, all)
			}
		})
	}
}

// compareHelmfile compares the releases of a state whose charts are in the repository. The conversion of a state that
// names values files does not carry over the secrets that helmfile has put into the other one.
func compareHelmfile(t *testing.T, repo, file, cluster string, named bool) (releases, equal int) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var state struct{ Releases []helmfileRelease }
	if err := yaml.Unmarshal(text, &state); err != nil {
		t.Fatal(err)
	}
	ours := rendered(t, repo, cluster)
	for i := range state.Releases {
		r := &state.Releases[i]
		if !strings.HasPrefix(r.Chart, "./") || len(r.Transformers) > 0 {
			continue
		}
		if r.Installed != nil && !*r.Installed || r.Condition == "beta.enabled" { // false in both environments
			if len(ours[r.Name]) > 0 {
				t.Errorf("%s: %s is not installed, and Sluice renders it", cluster, r.Name)
			}
			continue
		}
		for _, v := range r.Values {
			if named && v["password"] == "hunter3" {
				delete(v, "password")
			}
		}
		equal += equalObjects(t, cluster+"/"+r.Name, r.Namespace, r.template(t, repo), ours[r.Name])
		releases++
	}
	return releases, equal
}
