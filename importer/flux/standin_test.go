package flux_test

import (
	"slices"
	"strings"
	"testing"
)

const script = `
-- app/script.yaml --
apiVersion: v1
kind: ConfigMap
metadata: {name: script}
data:
  run.sh: |
    echo "${COLOR} ${TOKEN}"
`

// A variable that is not set fails its Kustomization, with the place of the reference, as kustomize-controller does
// since 1.9.
func TestUnsetVariable(t *testing.T) {
	t.Parallel()
	post := app("postBuild: {substitute: {COLOR: blue}}\n")
	generated := "-- app/kustomization.yaml --\nconfigMapGenerator: [{name: script, files: [run.sh]}]\ngeneratorOptions: {disableNameSuffixHash: true}\n-- app/run.sh --\n#!/bin/sh\necho ${COLOR} ${TOKEN}\n"
	for name, c := range map[string]struct{ files, fails, want string }{
		"not set": {
			sync + post + script,
			"app/script.yaml:6: ConfigMap default/script: spec.postBuild: the variable TOKEN is not set", "",
		},
		"in a generator": {sync + post + generated, "app/run.sh:2: ", ""},
		"changed by a length": {
			sync + post + strings.Replace(script, "${TOKEN}", "${#TOKEN}", 1),
			"the variable TOKEN is not set", "",
		},
		"with a default": {
			sync + post + strings.Replace(script, "${TOKEN}", "${TOKEN:=none}", 1), "",
			"blue none",
		},
		"an empty default": {sync + post + strings.Replace(script, "${TOKEN}", "${TOKEN:-}", 1), "", `blue "`},
		"set to nothing": {
			sync + app("postBuild: {substitute: {COLOR: blue, TOKEN: \"\"}}\n") + script, "",
			`blue "`,
		},
		"escaped": {sync + post + strings.Replace(script, "${TOKEN}", "$${TOKEN}", 1), "", "blue ${TOKEN}"},
		"switched off": {
			sync + post + strings.Replace(script, "{name: script}",
				"{name: script, annotations: {kustomize.toolkit.fluxcd.io/substitute: disabled}}", 1), "",
			"${COLOR} ${TOKEN}",
		},
		"no variables": {sync + app("") + script, "", "${COLOR} ${TOKEN}"},
		"always": {
			sync + app("postBuild: {substituteStrategy: Always}\n") + script,
			"the variable COLOR is not set", "",
		},
	} {
		u := units(t, c.files)["Kustomization/app"]
		switch {
		case c.fails != "" && (u.Err == nil || !strings.Contains(u.Err.Error(), c.fails)):
			t.Errorf("%s: the error is %v, want %q", name, u.Err, c.fails)
		case c.fails == "" && (u.Err != nil || !strings.Contains(string(u.Stream), c.want)):
			t.Errorf("%s: the objects are %q (error %v), want %q", name, u.Stream, u.Err, c.want)
		}
	}
	i := importer(t, sync+post+script)
	i.Lenient = true
	list, err := i.Import(t.Context(), "clusters/prod")
	if err != nil {
		t.Fatal(err)
	}
	if last := list[len(list)-1]; last.Err != nil || !strings.Contains(string(last.Stream), `blue "`) {
		t.Errorf("without the feature gate: the objects are %q (error %v), want an empty text", last.Stream, last.Err)
	}
}

// Values in stand-ins replace a ConfigMap or Secret that is not in Git, or encrypted there, and each unit names those
// that it used.
func TestStandIns(t *testing.T) {
	t.Parallel()
	const secret = "-- clusters/prod/vars.yaml --\napiVersion: v1\nkind: Secret\nmetadata: {name: vars, namespace: flux-system}\n"
	from := app("postBuild: {substituteFrom: [{kind: Secret, name: vars}]}\n") +
		strings.Replace(configMap, "red", "'${color}'", 1)
	const file = "stand-ins/flux-system-vars.yaml"
	const standIn = "-- " + file + " --\ncolor: grey\n"
	later := "-- app/vars.yaml --\napiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {name: vars, namespace: flux-system}\nspec: {interval: 10m, path: ./vars, prune: true, sourceRef: {kind: GitRepository, name: flux-system}}\n" +
		strings.Replace(secret, "clusters/prod/vars.yaml", "vars/vars.yaml", 1) + "stringData: {color: teal}\n"
	for name, c := range map[string]struct {
		files, fails, want string
		used               bool
	}{
		"none":      {from, "Secret flux-system/vars is not in Git", "", false},
		"a mapping": {from + standIn, "", "color: grey", true},
		"an object": {
			from + "-- " + file +
				" --\napiVersion: v1\nkind: Secret\nmetadata: {name: vars}\ndata: {color: Z3JleQ==}\n", "", "color: grey",
			true,
		},
		"another kind": {
			from + "-- " + file + " --\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: vars}\n",
			file + ": it must have one Secret", "", false,
		},
		"a number": {from + "-- " + file + " --\ncolor: 5\n", "color is not a string", "", false},
		"optional": {
			strings.Replace(from, "name: vars}", "name: vars, optional: true}", 1) + standIn, "",
			"color: grey", true,
		},
		"in Git": {from + secret + "stringData: {color: teal}\n" + standIn, "", "color: teal", false},
		"in Git, encrypted": {from + secret + "stringData: {color: \"ENC[AES256_GCM,data:x]\"}\nsops: {mac: x}\n" +
			standIn, "", "color: grey", true},
		"another unit's later": {from + later + standIn, "remove " + file, "", false},
	} {
		files := sync + c.files
		if name == "another unit's later" { // the app brings the unit that brings the Secret
			files = strings.Replace(files, "-- app/vars.yaml --", "-- clusters/prod/zvars.yaml --", 1)
			files = strings.Replace(files, "prune: true, sourceRef: {kind: GitRepository, name: flux-system}}\n-- vars",
				"prune: true, postBuild: {substituteFrom: [{kind: Secret, name: none, optional: true}]}, sourceRef: {kind: GitRepository, name: flux-system}}\n-- vars", 1)
		}
		u := units(t, files)["Kustomization/app"]
		switch {
		case c.fails != "" && (u.Err == nil || !strings.Contains(u.Err.Error(), c.fails)):
			t.Errorf("%s: the error is %v, want %q", name, u.Err, c.fails)
		case c.fails == "" && (u.Err != nil || !strings.Contains(string(u.Stream), c.want)):
			t.Errorf("%s: the objects are %q (error %v), want %q", name, u.Stream, u.Err, c.want)
		}
		if used := slices.Contains(u.StandIns, file) && slices.Contains(u.Reads, file); used != c.used &&
			c.fails == "" {
			t.Errorf("%s: the stand-in is marked: %v, want %v", name, used, c.used)
		}
	}
}
