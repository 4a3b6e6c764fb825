package argoref

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/argoproj/argo-cd/v3/applicationset/controllers/template"
	"github.com/argoproj/argo-cd/v3/applicationset/utils"
	v1alpha1 "github.com/argoproj/argo-cd/v3/pkg/apis/application/v1alpha1"
	log "github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	k8sfake "k8s.io/client-go/kubernetes/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// generate returns the Applications of an ApplicationSet.
func (b *builder) generate(ctx context.Context, set *v1alpha1.ApplicationSet) ([]v1alpha1.Application, error) {
	if err := b.local(plain(set.Spec.Generators)); err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(v1alpha1.AddToScheme(scheme), corev1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	set = set.DeepCopy()
	set.Namespace = namespace
	project := &v1alpha1.AppProject{ObjectMeta: metav1.ObjectMeta{Name: "default", Namespace: namespace}}
	builder := fake.NewClientBuilder().WithScheme(scheme).WithObjects(project)
	var objects []runtime.Object
	for i := range b.secrets {
		s := b.secrets[i].DeepCopy()
		s.Namespace = namespace
		builder = builder.WithObjects(s)
		objects = append(objects, s.DeepCopy())
	}
	client := builder.Build()
	all := newGenerators(ctx, client, k8sfake.NewClientset(objects...), repo{b})
	quiet := log.New()
	quiet.SetLevel(log.PanicLevel) // the error is returned too
	apps, _, err := template.GenerateApplications(log.NewEntry(quiet), *set, all, &utils.Render{}, client)
	return apps, err
}

// local reports a generator that asks a server or another repository.
func (b *builder) local(list any) error {
	items, _ := list.([]any)
	for _, item := range items {
		generator, _ := item.(map[string]any)
		for kind, spec := range generator {
			fields, ok := spec.(map[string]any)
			if !ok {
				continue
			}
			switch kind {
			case "scmProvider", "pullRequest", "plugin", "clusterDecisionResource":
				return skip("its generator " + kind + " asks a server")
			case "matrix", "merge":
				if err := b.local(fields["generators"]); err != nil {
					return err
				}
			case "git":
				url, _ := fields["repoURL"].(string)
				revision, _ := fields["revision"].(string)
				if err := b.thisCommit(url, revision); err != nil && !strings.Contains(url+revision, "{{") {
					return fmt.Errorf("its generator git: %w", err)
				}
			}
		}
	}
	return nil
}

// index writes a Git index of Dir outside of it, because the repository server finds files with `git ls-files`.
func (b *builder) index(ctx context.Context) error {
	for _, args := range [][]string{{"init", "-q", "--template="}, {"add", "--all", "--force"}} {
		if out, err := b.git(ctx, args...).CombinedOutput(); err != nil {
			return fmt.Errorf("git %s: %w: %s", args[0], err, out)
		}
	}
	return nil
}

// git runs Git without the configuration of the user.
func (b *builder) git(ctx context.Context, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, "git", args...)
	c.Dir = b.Dir
	c.Env = slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, "GIT_") })
	c.Env = append(c.Env, "GIT_DIR="+filepath.Join(b.work, "git"), "GIT_WORK_TREE="+b.Dir, "GIT_CONFIG_GLOBAL="+
		os.DevNull, "GIT_CONFIG_NOSYSTEM=1")
	return c
}

// repo answers the requests of git generators from a directory, as the repository server does. local has refused all
// other repositories. Its methods GetFiles and GetDirectories are beside newGenerators: each version of Argo CD has others.
type repo struct{ b *builder }

func (r repo) files(ctx context.Context, url, revision, pattern string) (map[string][]byte, error) {
	if err := r.b.thisCommit(url, revision); err != nil {
		return nil, err
	}
	out, err := r.b.git(ctx, "ls-files", "--full-name", "-z", "--", pattern).Output()
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for name := range strings.SplitSeq(strings.Trim(string(out), "\x00"), "\x00") {
		if name == "" {
			continue
		}
		if files[name], err = os.ReadFile(filepath.Join(r.b.Dir, name)); err != nil {
			return nil, err
		}
	}
	return files, nil
}

func (r repo) directories(url, revision string) ([]string, error) {
	if err := r.b.thisCommit(url, revision); err != nil {
		return nil, err
	}
	var out []string
	err := filepath.WalkDir(r.b.Dir, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || !d.IsDir() || name == r.b.Dir:
			return err
		case strings.HasPrefix(d.Name(), "."):
			return filepath.SkipDir
		}
		rel, err := filepath.Rel(r.b.Dir, name)
		out = append(out, filepath.ToSlash(rel))
		return err
	})
	return out, err
}
