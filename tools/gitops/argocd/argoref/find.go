package argoref

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
	"github.com/go-git/go-git/v5/plumbing/format/gitignore"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	v1alpha1 "github.com/argoproj/argo-cd/v3/pkg/apis/application/v1alpha1"
)

const (
	secretType = "argocd.argoproj.io/secret-type"
	nameOf     = "name"
	serverOf   = "server"
)

// find reads the Applications, ApplicationSets and cluster Secrets of the files that Apps names.
func (b *builder) find() ([]found, error) {
	root := []string{"repository"} // a pattern without a domain would match anywhere
	var patterns []gitignore.Pattern
	for _, text := range b.Ignore {
		if text != "" && !strings.HasPrefix(text, "#") {
			patterns = append(patterns, gitignore.ParsePattern(text, root))
		}
	}
	ignore := gitignore.NewMatcher(patterns)
	var out []found
	err := filepath.WalkDir(b.Dir, func(full string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		rel, err := filepath.Rel(b.Dir, full)
		if err != nil {
			return err
		}
		name := filepath.ToSlash(rel)
		if !slices.Contains([]string{".yaml", ".yml", ".json"}, path.Ext(name)) || !b.wanted(name) || b.template(name) {
			return nil
		}
		data, err := os.ReadFile(full)
		if err != nil {
			return err
		}
		list := b.read(name, data)
		if !ignore.Match(append(root, strings.Split(name, "/")...), false) {
			out = append(out, list...)
			return nil
		}
		for _, f := range list {
			b.kept[f.object.GetKind()+"/"+f.object.GetName()] = true
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, f := range out { // an ignored copy does not hide it
		id := f.object.GetKind() + "/" + f.object.GetName()
		delete(b.kept, id)
		if b.written[id] == "" {
			b.written[id] = f.file
		}
	}
	b.clusterSecrets(out)
	return slices.DeleteFunc(out, func(f found) bool { return f.object.GetKind() == "Secret" }), nil
}

// read returns the Applications and Secrets of one file.
func (b *builder) read(name string, data []byte) []found {
	application := bytes.Contains(data, []byte("argoproj.io/v")) && bytes.Contains(data, []byte("kind"))
	if !application && !bytes.Contains(data, []byte(secretType)) {
		return nil
	}
	objects, err := split(data)
	if err != nil {
		if bytes.Contains(data, []byte("Application")) || bytes.Contains(data, []byte(secretType)) {
			b.add(App{Name: "the file " + name, File: name, Skipped: "it is not valid: " + err.Error()}, "", nil)
		}
		return nil
	}
	var out []found
	for _, o := range objects {
		if isApplication(o) && complete(o) || o.GetKind() == "Secret" && o.GetLabels()[secretType] == "cluster" {
			out = append(out, found{object: o, file: name})
		}
	}
	return out
}

// split returns the objects of a file.
func split(data []byte) ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	for documents := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096); ; {
		o := &unstructured.Unstructured{}
		switch err := documents.Decode(&o.Object); {
		case errors.Is(err, io.EOF):
			return out, nil
		case err != nil:
			return nil, err
		case len(o.Object) > 0:
			out = append(out, o)
		}
	}
}

// complete tells an Application from a patch for one.
func complete(o *unstructured.Unstructured) bool {
	spec, _ := o.Object["spec"].(map[string]any)
	if o.GetKind() == "ApplicationSet" {
		return spec["template"] != nil && spec["generators"] != nil
	}
	return spec["destination"] != nil && (spec["source"] != nil || spec["sources"] != nil ||
		spec["sourceHydrator"] != nil)
}

func (b *builder) wanted(name string) bool {
	return len(b.Apps) == 0 || slices.ContainsFunc(b.Apps, func(p string) bool {
		return doublestar.MatchUnvalidated(p,
			name)
	})
}

// template reports whether a file is a template of a chart.
func (b *builder) template(name string) bool {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if path.Base(dir) == "templates" {
			if _, err := os.Stat(filepath.Join(b.Dir, path.Dir(dir), "Chart.yaml")); err == nil {
				return true
			}
		}
	}
	return false
}

// clusterSecrets takes the declarative cluster Secrets.
func (b *builder) clusterSecrets(list []found) {
	for _, f := range list {
		if f.object.GetKind() != "Secret" {
			continue
		}
		var s corev1.Secret
		if err := convert(f.object, &s); err != nil {
			b.add(App{Name: "the Secret " + f.object.GetName(), File: f.file, Skipped: "it cannot be read: " +
				err.Error()}, "", nil)
			continue
		}
		if s.Data == nil {
			s.Data = map[string][]byte{}
		}
		for k, v := range s.StringData {
			s.Data[k] = []byte(v)
		}
		b.secrets = append(b.secrets, s)
	}
}

// register makes both sides of the registry complete: each cluster of the options has a Secret, and each Secret a
// cluster. The cluster that Argo CD runs in needs no Secret unless it has labels.
func (b *builder) register() {
	var extra []corev1.Secret
	for _, c := range b.Clusters {
		local := strings.TrimSuffix(c.Server, "/") == v1alpha1.KubernetesInternalAPIServerAddr &&
			len(c.Labels)+len(c.Annotations) == 0
		if local || slices.ContainsFunc(b.secrets, func(s corev1.Secret) bool { return describes(&s, c) }) {
			continue
		}
		labels := map[string]string{secretType: "cluster"}
		maps.Copy(labels, c.Labels)
		extra = append(extra, corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: "registered-" + c.Name, Labels: labels, Annotations: c.Annotations},
			Data:       map[string][]byte{nameOf: []byte(c.Name), serverOf: []byte(c.Server)},
		})
	}
	for i := range b.secrets {
		s := &b.secrets[i]
		known := slices.IndexFunc(b.Clusters, func(c Cluster) bool { return describes(s, c) })
		if known < 0 && len(s.Data[nameOf]) > 0 {
			b.Clusters = append(b.Clusters, Cluster{Name: string(s.Data[nameOf]), Server: string(s.Data[serverOf])})
		} else if known >= 0 && b.Clusters[known].Server == "" {
			b.Clusters[known].Server = string(s.Data[serverOf])
		}
	}
	b.secrets = append(b.secrets, extra...)
}

func describes(s *corev1.Secret, c Cluster) bool {
	return string(s.Data[nameOf]) == c.Name || c.Server != "" &&
		strings.TrimSuffix(string(s.Data[serverOf]), "/") == strings.TrimSuffix(c.Server, "/")
}
