package argocd

import (
	"fmt"
	"io"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/kustomize/api/kv"
	"sigs.k8s.io/kustomize/api/provider"
	editadd "sigs.k8s.io/kustomize/kustomize/v5/commands/edit/add"
	editset "sigs.k8s.io/kustomize/kustomize/v5/commands/edit/set"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"github.com/sluice-gitops/sluice/renderer/kustomize"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// edited returns the kustomization of a directory with the fields of a source. Argo CD runs these commands of
// `kustomize edit`, in this order: https://github.com/argoproj/argo-cd/blob/v3.2.12/util/kustomize/kustomize.go
func (i *importer) edited(k *kustomizeSource, dir string, env map[string]string) (data []byte, err error) {
	defer func() {
		if r := recover(); r != nil { // Kustomize's commands are made for files that a person wrote
			data, err = nil, fmt.Errorf("kustomize edit panicked: %v", r)
		}
	}()
	e, err := i.editor(dir)
	if err != nil {
		return nil, err
	}
	steps := []func(*kustomizeSource, map[string]string) error{
		e.names, e.images, e.replicas, e.labels, e.annotations,
		e.namespace, e.patches, e.components,
	}
	for _, step := range steps {
		if err := step(k, env); err != nil {
			return nil, err
		}
	}
	return e.files.FileSystem.ReadFile(e.name)
}

// editor runs commands of `kustomize edit` on the kustomization of one directory.
type editor struct {
	*importer
	dir, name string
	files     edits // the directory's kustomization, in memory
}

func (i *importer) editor(dir string) (*editor, error) {
	e := &editor{importer: i, dir: dir}
	e.files = edits{filesys.MakeFsInMemory(), e.glob}
	for _, base := range kustomize.FileNames() {
		name := path.Join(dir, base)
		if !i.isFile(name) {
			continue
		}
		data, err := i.Tree.ReadFile(name)
		if err != nil {
			return nil, err
		}
		if err := manifest.Check(data, manifest.DefaultBudget()); err != nil {
			return nil, err
		}
		if err := e.files.WriteFile(base, data); err != nil {
			return nil, err
		}
		if e.name == "" {
			e.name = base
		}
	}
	return e, nil
}

// run runs `kustomize edit`. The error names the field that asks for it.
func (e *editor) run(field string, args ...string) error {
	depends := provider.NewDefaultDepProvider()
	values := kv.NewLoader(nil, depends.GetFieldValidator()) // no command here reads files for generators
	edit := &cobra.Command{Use: "edit", SilenceErrors: true, SilenceUsage: true}
	edit.AddCommand(editadd.NewCmdAdd(e.files, values, depends.GetResourceFactory()),
		editset.NewCmdSet(e.files, values, depends.GetFieldValidator(), depends.GetResourceFactory()))
	edit.SetArgs(args)
	edit.SetOut(io.Discard)
	edit.SetErr(io.Discard)
	err := edit.Execute()
	if err == nil {
		return nil
	}
	text := strings.Join(strings.Fields(err.Error()), " ") // some have several lines
	text = strings.Replace(text, ". Use --force to override.", " (set force"+strings.ToUpper(field[:1])+field[1:]+")",
		1)
	return fmt.Errorf("kustomize.%s: kustomize edit %s: %s", field, strings.Join(args, " "), text)
}

func (e *editor) names(k *kustomizeSource, _ map[string]string) error {
	if k.NamePrefix != "" {
		if err := e.run("namePrefix", "set", "nameprefix", "--", k.NamePrefix); err != nil {
			return err
		}
	}
	if k.NameSuffix == "" {
		return nil
	}
	return e.run("nameSuffix", "set", "namesuffix", "--", k.NameSuffix)
}

func (e *editor) images(k *kustomizeSource, env map[string]string) error {
	if len(k.Images) == 0 {
		return nil
	}
	args := []string{"set", "image"}
	for _, image := range k.Images {
		image, err := expand(image, env)
		if err != nil {
			return fmt.Errorf("kustomize.images: %w", err)
		}
		args = append(args, image)
	}
	return e.run("images", args...)
}

func (e *editor) replicas(k *kustomizeSource, _ map[string]string) error {
	if len(k.Replicas) == 0 {
		return nil
	}
	args := []string{"set", "replicas"}
	for _, r := range k.Replicas {
		count := int(r.Count.IntVal)
		if r.Count.Type == intstr.String {
			var err error
			if count, err = strconv.Atoi(r.Count.StrVal); err != nil {
				return fmt.Errorf("kustomize.replicas %s: %q is no number", r.Name, r.Count.StrVal)
			}
		}
		args = append(args, r.Name+"="+strconv.Itoa(count))
	}
	return e.run("replicas", args...)
}

func (e *editor) labels(k *kustomizeSource, env map[string]string) error {
	return e.metadata("label", "commonLabels", k.CommonLabels, env, map[string]bool{
		"--force": k.ForceCommonLabels, "--without-selector": k.LabelWithoutSelector,
		"--include-templates": k.LabelIncludeTemplates,
	})
}

func (e *editor) annotations(k *kustomizeSource, env map[string]string) error {
	if !k.CommonAnnotationsEnvsubst {
		env = nil
	}
	return e.metadata("annotation", "commonAnnotations", k.CommonAnnotations, env,
		map[string]bool{"--force": k.ForceCommonAnnotations})
}

// metadata adds labels or annotations. Without an env, variables in the values stay.
func (e *editor) metadata(kind, field string, values, env map[string]string, flags map[string]bool) error {
	if len(values) == 0 {
		return nil
	}
	args := []string{"add", kind}
	for _, flag := range slices.Sorted(maps.Keys(flags)) {
		if flags[flag] {
			args = append(args, flag)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		value := values[key]
		if env != nil {
			var err error
			if value, err = expand(value, env); err != nil {
				return fmt.Errorf("kustomize.%s: %w", field, err)
			}
		}
		args = append(args, key+":"+value)
	}
	return e.run(field, args...)
}

func (e *editor) namespace(k *kustomizeSource, _ map[string]string) error {
	if k.Namespace == "" {
		return nil
	}
	return e.run("namespace", "set", "namespace", "--", k.Namespace)
}

// patches appends patches. `kustomize edit add patch` does not know all of their fields, so Argo CD writes the file
// itself.
func (e *editor) patches(k *kustomizeSource, _ map[string]string) error {
	if len(k.Patches) == 0 {
		return nil
	}
	data, err := e.files.FileSystem.ReadFile(e.name)
	if err != nil {
		return err
	}
	var kustomization map[string]any
	if err := yaml.Unmarshal(data, &kustomization); err != nil {
		return err
	}
	written, has := kustomization["patches"]
	list, ok := written.([]any)
	if has && !ok {
		return fmt.Errorf("kustomize.patches: the kustomization's own patches are no list")
	}
	for _, p := range k.Patches {
		list = append(list, p)
	}
	if kustomization == nil { // the file is empty
		kustomization = map[string]any{}
	}
	kustomization["patches"] = list
	if data, err = yaml.Marshal(kustomization); err != nil {
		return err
	}
	return e.files.WriteFile(e.name, data)
}

func (e *editor) components(k *kustomizeSource, _ map[string]string) error {
	args := []string{"add", "component"}
	for _, c := range k.Components {
		if _, err := e.Tree.Stat(path.Join(e.dir, c)); err != nil && k.IgnoreMissingComponents {
			continue
		}
		args = append(args, c)
	}
	if len(args) == 2 { //nolint:mnd // none
		return nil
	}
	return e.run("components", args...)
}

// edits is the file system of `kustomize edit`.
type edits struct {
	filesys.FileSystem
	glob func(pattern string) ([]string, error)
}

// Glob implements filesys.FileSystem.
func (f edits) Glob(pattern string) ([]string, error) { return f.glob(pattern) }

// ReadFile implements filesys.FileSystem. It returns the file in one line of JSON: to keep comments, the commands
// compare each line with each field, which takes 0.1 s for a file of 300 lines. No comment is read afterwards.
func (f edits) ReadFile(name string) ([]byte, error) {
	data, err := f.FileSystem.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return yaml.YAMLToJSON(data)
}

// glob returns the files and directories of the commit that match a pattern, relative to the directory. A pattern that
// matches nothing stays as it is: the command must not look for it in other repositories, and whoever reads the
// kustomization reports it.
func (e *editor) glob(pattern string) ([]string, error) {
	found := map[string]bool{}
	if strings.ContainsAny(pattern, `*?[\`) {
		full := path.Join(e.dir, pattern)
		for _, name := range e.sortedFiles() {
			for ; name != "."; name = path.Dir(name) {
				ok, err := path.Match(full, name)
				if err != nil {
					return nil, err
				}
				if !ok || strings.HasPrefix(path.Base(name), ".") {
					continue
				}
				relative, err := filepath.Rel(e.dir, name)
				if err != nil {
					return nil, err
				}
				found[filepath.ToSlash(relative)] = true
			}
		}
	}
	if len(found) == 0 {
		return []string{pattern}, nil
	}
	return slices.Sorted(maps.Keys(found)), nil
}
