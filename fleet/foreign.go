package fleet

import (
	"io/fs"
	"path"
)

// helmfiles returns the names that helmfile looks for.
func helmfiles() []string {
	return []string{"helmfile.yaml", "helmfile.yaml.gotmpl", "helmfile.yml", "helmfile.d"}
}

// absentHint says what to run in a repository without sluice.yaml. It reads names in the root and one level below.
func absentHint(tree fs.FS) string {
	if name := helmfileIn(tree); name != "" {
		return "this is a Helmfile repository, see " + name + ": run `sluice import helmfile` in it"
	}
	return "run `sluice import --detect --write` for Flux or Argo CD objects, `sluice import helmfile` for helmfiles, and `sluice init` for charts, Kustomize roots and manifests; " +
		"commit the file if it is new; or choose another commit or folder"
}

func helmfileIn(tree fs.FS) string {
	entries, err := fs.ReadDir(tree, ".")
	if err != nil {
		return "" // the hint is general then
	}
	dirs := []string{"."}
	for _, e := range entries {
		if e.IsDir() {
			dirs = append(dirs, e.Name())
		}
	}
	for _, dir := range dirs {
		for _, base := range helmfiles() {
			name := path.Join(dir, base)
			if _, err := fs.Stat(tree, name); err == nil {
				return name
			}
		}
	}
	return ""
}
