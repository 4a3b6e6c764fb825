package helmfile

import (
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
)

// Decrypted secrets reach the values of templates, and those in the helmfile, on many ways. They are written only if
// the user says so.
func TestInlineValues(t *testing.T) {
	t.Parallel()
	const (
		named    = "releases: [{name: web, namespace: web, chart: ./charts/web, values: [values/t.yaml.gotmpl, {x: {z: 1}}]}]\n"
		embedded = "releases: [{name: web, namespace: web, chart: ./charts/web, values: [{password: hunter2}, {x: {z: 1}}]}]\n"
	)
	for name, c := range map[string]struct {
		state string // before the releases
		file  string
		text  string
		why   string // "" if the values are written
	}{
		"nothing": {"", "deploy/a.txt", "x", ""},
		"environment file": {
			"environments: {prod: {values: [env/prod.yaml]}}\n", "deploy/env/prod.yaml",
			"dbPassword: ref+vault://x", "deploy/env/prod.yaml has references",
		},
		"helmfile": {
			"", "deploy/helmfile.yaml", "{{ fetchSecretValue .x }}",
			"deploy/helmfile.yaml has references",
		},
		"JSON":             {"", "deploy/a.json", `{"a": "ref+vault://x"}`, "deploy/a.json has references"},
		"partial template": {"", "b.tpl", "{{ expandSecretRefs .x }}", "b.tpl has references"},
		"secrets": {
			"environments: {prod: {secrets: [env/secret.yaml]}}\n", "deploy/env/secret.yaml",
			"a: ENC[x]", "environments.prod.secrets",
		},
		"secrets elsewhere": {
			"environments: {other: {secrets: [env/secret.yaml]}}\n", "deploy/a.txt", "x",
			"environments.other.secrets",
		},
		"rendered values": {
			"renderedvalues: {a: [{b: ref+vault://x}]}\n", "deploy/a.txt", "x",
			"the values of the environment have references",
		},
		"values in the state": {
			"environments: {prod: {values: [{b: secretref+vault://x}]}}\n", "deploy/a.txt", "x",
			"the values of the environment have references",
		},
		"missing environment": {
			"environments: {prod: {values: [env/ignored.yaml]}}\n", "deploy/a.txt", "x",
			"cannot search env/ignored.yaml",
		},
		"fetched environment": {
			"environments: {prod: {values: ['git::https://x/y@v.yaml']}}\n", "deploy/a.txt", "x",
			"cannot search git::https",
		},
		"ignored environment": {
			"environments: {prod: {values: ['env/*.yaml']}}\n", "deploy/env/prod.yaml", "a: 1",
			"Git ignores deploy/env/secret.yaml",
		},
		"clean environment": {
			"environments: {prod: {values: ['env/*.yaml']}}\n", "deploy/env/prod.yaml", "a: 1",
			"",
		},
		"a binary file": {"", "logo.png", "\x00ref+", ""},
		"also a values file": {
			"environments: {prod: {values: ['values/a.*']}}\n", "deploy/values/a.yaml",
			"password: ref+vault://x", "deploy/values/a.yaml has references",
		},
		"only a values file": {"", "deploy/values/a.yaml", "password: ref+vault://x", ""},
		"a file that is read": {
			"", "deploy/values/a.yaml", "password: ref+vault://x # readFile",
			"deploy/values/a.yaml has references",
		},
		"template of a secret": {
			"", "deploy/values/t.yaml.gotmpl", "{{ fetchSecretValue .x }}",
			"reads a secret store",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := repo()
			files[c.file] = &fstest.MapFile{Data: []byte(c.text)}
			other := "- {name: api, namespace: web, chart: ./charts/web, values: [values/a.yaml]}\n"
			block := func(text string) string {
				return c.state + strings.Replace(strings.Replace(text, "releases: [", "releases:\n- ", 1), "}]}]\n",
					"}]}\n", 1)
			}
			states := []State{state("prod", block(named)+other), state("prod",
				block(embedded)+strings.Replace(other, "values/a.yaml", "{user: ada}", 1))}
			for _, pass := range []bool{false, true} {
				worktree := fstest.MapFS{}
				if name == "ignored environment" {
					worktree["deploy/env/secret.yaml"] = &fstest.MapFile{Data: []byte(secretValues)}
				}
				result, err := Convert(Options{
					States: states, Files: files, Worktree: worktree,
					Root: "/work/elsewhere", InlineValues: pass,
				})
				if result == nil {
					t.Fatal(err)
				}
				written, listed := false, ""
				for _, data := range result.Files {
					written = written || strings.Contains(string(data), "hunter2")
				}
				for _, f := range result.Findings {
					if f.Release == "web" {
						listed += f.Effect + " " + f.Field + ": " + f.Reason + "\n"
					}
				}
				if strings.Contains(listed, "hunter2") {
					t.Errorf("the findings show a value: %s", listed)
				}
				want := c.why == "" || pass && name != "template of a secret"
				if written != want {
					t.Errorf("with --with-inline-values %v: written %v, want %v", pass, written, want)
				}
				effect := LeftOut
				if want {
					effect = Changed
				}
				if name != "template of a secret" && (!strings.Contains(listed, effect+
					" values[0] values/t.yaml.gotmpl (password): ") ||
					!strings.Contains(listed, effect+" values[1] (x.z): ")) {
					t.Errorf("with --with-inline-values %v: listed %q", pass, listed)
				}
				if !want && !strings.Contains(listed, c.why) {
					t.Errorf("listed %q, want %q", listed, c.why)
				}
			}
		})
	}
}

// A state of embedded values has the secrets of each file, whatever its extension.
func TestEmbeddedSecrets(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"deploy/a.json", "deploy/b.tpl", "deploy/helmfile.yaml", "deploy/values/a.yaml"} {
		files := repo()
		files[file] = &fstest.MapFile{Data: []byte("ref+vault://x")}
		_, err := convert(t, files,
			state("prod", "releases: [{name: web, namespace: web, chart: ./charts/web, values: [{a: 1}]}]\n"))
		if err == nil || !strings.Contains(err.Error(), file+" has references that helmfile replaces by secrets") {
			t.Errorf("%s: the error is %v", file, err)
		}
	}
}

// Whatever exists for helmfile is read, or refused by name, even if the state permits that a file is missing.
func TestFilesThatExist(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"pattern": {"values: ['values/a*.yaml']", ""},
		"two matches": {
			"values: ['values/[ab].yaml']",
			"values[0]: values/[ab].yaml matches deploy/values/a.yaml, deploy/values/b.yaml, and helmfile accepts one file",
		},
		"ignored match": {"values: ['values/sec*.yaml']", "values[0]: Git ignores deploy/values/secluded.yaml"},
		"second ignored": {
			"values: ['values/n*.yaml']",
			"values[0]: values/n*.yaml matches deploy/values/near.yaml, deploy/values/nearby.yaml",
		},
		"ignored": {"values: [values/secluded.yaml]", "values[0]: Git ignores deploy/values/secluded.yaml"},
		"link": {
			"values: [values/link.yaml]",
			"values[0]: deploy/values/link.yaml is a symbolic link, which Sluice does not follow",
		},
		"below a link": {"values: [linked/a.yaml]", "values[0]: deploy/linked is a symbolic link"},
		"a folder":     {"values: [values]", "values[0]: deploy/values cannot be read"},
		"patch": {
			"strategicMergePatches: [values/link.yaml]",
			"strategicMergePatches[0]: deploy/values/link.yaml is a symbolic link",
		},
		"missing patch": {
			"strategicMergePatches: [none.yaml]",
			"strategicMergePatches[0]: the repository has no file deploy/none.yaml",
		},
		"set": {
			"set: [{name: a, file: values/link.yaml}]",
			"set[0]: deploy/values/link.yaml is a symbolic link",
		},
		"missing set": {"set: [{name: a, file: none.yaml}]", "set[0]: the repository has no file deploy/none.yaml"},
		"bad handler": {
			"missingFileHandler: Perhaps, values: [none.yaml]",
			"values[0]: the repository has no file deploy/none.yaml",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := repo()
			files["deploy/values/link.yaml"] = &fstest.MapFile{Data: []byte("a.yaml"), Mode: fs.ModeSymlink}
			files["deploy/linked"] = &fstest.MapFile{Data: []byte("values"), Mode: fs.ModeSymlink}
			worktree := fstest.MapFS{"deploy/values/secluded.yaml": {}, "deploy/values/nearby.yaml": {}}
			handler := "missingFileHandler: Warn, "
			if strings.Contains(c.text, "Handler") {
				handler = ""
			}
			text := "releases: [{name: web, namespace: web, chart: ./charts/web, " + handler + c.text + "}]\n"
			result, err := Convert(Options{States: []State{state("prod", text)}, Files: files, Worktree: worktree})
			if c.want == "" {
				if err != nil || len(result.Kept) != 1 || len(result.Findings) != 0 {
					t.Errorf("the error is %v, the result is %+v", err, result)
				}
				return
			}
			if result == nil || len(result.Findings) != 1 || result.Findings[0].Effect != LeftOut ||
				!strings.HasPrefix(result.Findings[0].Field+": "+result.Findings[0].Reason, c.want) {
				t.Errorf("the error is %v, the result is %+v, want %q", err, result, c.want)
			}
		})
	}
}

// References of vals in patches are not written as text.
func TestReferencesInPatches(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"strategicMergePatches: [{kind: Secret, stringData: {a: ref+vault://x}}]",
		"strategicMergePatches: [patch.yaml]",
		"jsonPatches: [{target: {kind: Secret}, patch: [{op: add, path: /data/a, value: ref+vault://x}]}]",
	} {
		files := repo()
		files["deploy/patch.yaml"] = &fstest.MapFile{Data: []byte("kind: Secret\nstringData: {a: ref+vault://x}\n")}
		result, _ := Convert(Options{
			States: []State{state("prod",
				"releases: [{name: web, namespace: web, chart: ./charts/web, "+text+"}]\n")}, Files: files,
			InlineValues: true,
		})
		if result == nil || len(result.Files) > 0 || len(result.Findings) != 1 ||
			!strings.Contains(result.Findings[0].Reason, "a reference of vals") {
			t.Errorf("%s: the result is %+v", text, result)
		}
	}
}
