package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// Of the Flux repository of the corpus.
const (
	homeFleet = "flux/bjw-s--home-ops"
	homeFile  = "kubernetes/main/apps/cert-manager/cert-manager/issuers/issuer-letsencrypt-prd.yaml"
	homeField = "    email: "
)

// home measures an existing Flux repository without sluice.yaml: all its Kustomizations in a new cache, and diffs of
// one line after that. Its charts are not in the corpus, so its HelmReleases are read and not rendered. The rival is a
// process of kustomize for each Kustomization.
type home struct{ *bench }

func (b home) run(corpus string) error {
	fmt.Printf("\n== a Flux repository as it is: %s\n", homeFleet)
	from := filepath.Join(corpus, homeFleet)
	if _, err := os.Stat(from); errors.Is(err, fs.ErrNotExist) {
		fmt.Printf("skipped: %s does not exist (set CORPUS)\n", from)
		return nil
	}
	src := filepath.Join(b.dir, "home")
	if err := os.CopyFS(src, os.DirFS(from)); err != nil {
		return err
	}
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"config", "user.name", "bench"},
		{"config", "user.email", "bench@example.com"}, {"add", "-A"}, {"commit", "-q", "-m", "start"}} {
		if _, err := b.command(src, "git", args...); err != nil {
			return err
		}
	}
	roots, err := kustomizationPaths(src)
	if err != nil {
		return err
	}
	show := func(what string, m measured, more string) {
		row(what, m, fmt.Sprintf("%.2f s of processor time%s", m.cpu.Seconds(), more))
	}
	rival, built, err := b.kustomizeEach(src, roots)
	if err != nil {
		return err
	}
	show("kustomize build", rival, fmt.Sprintf(", a process for each of %d Kustomizations, of which %d build",
		len(roots), built))
	defer restore("SLUICE_CACHE_DIR")()
	var builds, first, next []measured
	for n := range 3 {
		if err := os.Setenv("SLUICE_CACHE_DIR", filepath.Join(b.dir, fmt.Sprint("home-cache", n))); err != nil {
			return err
		}
		m, err := b.command(src, b.sluice, "render", "-q", "--cluster", "main", "--out",
			filepath.Join(b.dir, fmt.Sprint("home-out", n)))
		// charts are missing
		if failed, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || failed.ExitCode() != 1) {
			return err
		}
		builds = append(builds, m)
		for k, list := range []*[]measured{&first, &next} { // a change that no earlier run has seen
			if m, err = b.oneLine(src, fmt.Sprintf("line-%d-%d", n, k)); err != nil {
				return err
			}
			*list = append(*list, m)
		}
	}
	for _, one := range []struct {
		what string
		all  []measured
	}{{"sluice render, cold", builds}, {"one-line diff, cold", first}, {"one-line diff, warm", next}} {
		m := slices.MinFunc(one.all, func(a, b measured) int { return int(a.cpu - b.cpu) })
		show(one.what, m, fmt.Sprintf(", %.1f × less than kustomize build", rival.cpu.Seconds()/m.cpu.Seconds()))
	}
	return nil
}

// restore returns a function that gives an environment variable its present value.
func restore(name string) func() {
	old, was := os.LookupEnv(name)
	return func() {
		if !was {
			_ = os.Unsetenv(name)
			return
		}
		_ = os.Setenv(name, old)
	}
}

// oneLine changes a field of the working tree and compares with HEAD.
func (b home) oneLine(src, value string) (measured, error) {
	if _, err := b.command(src, "git", "checkout", "-q", "."); err != nil {
		return measured{}, err
	}
	name := filepath.Join(src, homeFile)
	text, err := os.ReadFile(name)
	if err != nil {
		return measured{}, err
	}
	changed := bytes.Replace(text, []byte(homeField), []byte(homeField+value+"."), 1)
	if bytes.Equal(text, changed) {
		return measured{}, fmt.Errorf("%s has no line with %q", name, homeField)
	}
	if err := os.WriteFile(name, changed, 0o644); err != nil {
		return measured{}, err
	}
	out, m, err := b.execute(src, b.sluice, "diff", "-q", "--offline")
	if err == nil && !strings.Contains(out, value) {
		err = fmt.Errorf("the diff does not show the change:\n%s", out)
	}
	return m, err
}

// kustomizeEach runs kustomize for each directory, one after the other, and adds the times up. It counts those that
// build: some name files that the corpus leaves out.
func (b home) kustomizeEach(src string, dirs []string) (measured, int, error) {
	var out measured
	built := 0
	for _, dir := range dirs {
		m, err := b.command(src, os.Getenv("KUSTOMIZE_BIN"), "build", "--load-restrictor", "LoadRestrictionsNone", dir)
		if failed, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || failed.ExitCode() < 0) {
			return out, built, err
		}
		if err == nil {
			built++
		}
		out.wall, out.cpu, out.peak = out.wall+m.wall, out.cpu+m.cpu, max(out.peak, m.peak)
	}
	if built == 0 {
		return out, built, errors.New("kustomize builds none of the directories")
	}
	return out, built, nil
}

// kustomizationPaths returns the directories that the Kustomizations of Flux name and that have a kustomization of
// their own.
func kustomizationPaths(src string) ([]string, error) {
	found := map[string]bool{}
	err := filepath.WalkDir(filepath.Join(src, "kubernetes"), func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(name) != ".yaml" {
			return err
		}
		data, err := os.ReadFile(name)
		if err != nil || !bytes.Contains(data, []byte("kustomize.toolkit.fluxcd.io/")) {
			return err
		}
		objects, err := manifest.Decode(data, manifest.DefaultBudget())
		if err != nil {
			return nil //nolint:nilerr // such as a patch
		}
		for _, o := range objects {
			spec, _ := o["spec"].(map[string]any)
			dir, _ := spec["path"].(string)
			if _, err := os.Stat(filepath.Join(src, dir, "kustomization.yaml")); err == nil && dir != "" &&
				manifest.GroupOf(o.APIVersion()) == "kustomize.toolkit.fluxcd.io" {
				found[filepath.Clean(dir)] = true
			}
		}
		return nil
	})
	return slices.Sorted(maps.Keys(found)), err
}
