package bootstrap

import (
	"flag"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-gitops/sluice/fleet"
)

var update = flag.Bool("update", false, "write the golden files anew")

const base = "apiVersion: sluice.dev/v1alpha1\n"

func app(name, placement, dependsOn string) string {
	return fmt.Sprintf("%skind: App\nmetadata: {name: %s}\nspec: {namespace: \"%s-${environment}\", placement: %s, dependsOn: %s, source: {manifests: {path: m}}}\n", base, name, name[:1], placement, dependsOn)
}

func testFleet(t *testing.T, change func(files map[string]string)) *fleet.Fleet {
	t.Helper()
	cluster := func(name, state string) string {
		return base + "kind: Cluster\nmetadata: {name: " + name +
			", labels: {region: eu}}\nspec: {environment: prod, state: " + state + "}\n---\n"
	}
	files := map[string]string{
		"sluice.yaml": base +
			"kind: Fleet\nmetadata: {name: acme}\nspec:\n  environments: [{name: prod}]\n  output: {clusterBranch: \"rendered/${environment}/${cluster.name}\"}\n",
		"clusters/all.yaml":   cluster("eu-1", "active") + cluster("ice", "frozen") + cluster("old", "retired"),
		"apps/certs/app.yaml": app("certs", "{}", "[]"),
		"apps/mesh/app.yaml":  app("mesh", "{matchLabels: {region: us}, optional: true}", "[]"),
		"apps/shop/app.yaml":  app("shop", "{}", "[mesh, certs]"),
		"m/x.yaml":            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n",
	}
	if change != nil {
		change(files)
	}
	tree := fstest.MapFS{}
	for name, data := range files {
		tree[name] = &fstest.MapFile{Data: []byte(data)}
	}
	f, problems := fleet.Load(t.Context(), tree, nil)
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	return f
}

func fluxOptions(t *testing.T, address string) FluxOptions {
	t.Helper()
	o := FluxOptions{
		Name: "sluice", Secret: "git", StatusSecret: "status", Interval: time.Minute,
		Timeout: 5 * time.Minute,
	}
	o.Options = common(t, address, "flux-system")
	return o
}

func common(t *testing.T, address, namespace string) Options {
	t.Helper()
	r, err := ParseRepository(address)
	if err != nil {
		t.Fatal(err)
	}
	forge, err := r.ForgeOf(Guess)
	if err != nil {
		t.Fatal(err)
	}
	return Options{Repository: r, Forge: forge, Namespace: namespace, Namespaces: true}
}

func TestGolden(t *testing.T) {
	f := testFleet(t, nil)
	const github, gitlab = "https://github.com/acme/fleet.git", "git@gitlab.example.com:acme/platform/fleet.git"
	const gitea = "https://gitea.example.com/acme/fleet.git"
	argo := func(address string, hub, set bool) ArgoOptions {
		return ArgoOptions{Options: common(t, address, "argocd"), Hub: hub, ApplicationSet: set}
	}
	receiver := fluxOptions(t, gitlab)
	receiver.ReceiverSecret = "hook"
	for name, give := range map[string]func(c *fleet.Cluster) ([]Object, error){
		"flux-github": func(c *fleet.Cluster) ([]Object, error) { return Flux(f, c, fluxOptions(t, github)) },
		"flux-gitlab": func(c *fleet.Cluster) ([]Object, error) { return Flux(f, c, receiver) },
		"flux-gitea":  func(c *fleet.Cluster) ([]Object, error) { return Flux(f, c, fluxOptions(t, gitea)) },
		"argocd-gitea": func(c *fleet.Cluster) ([]Object, error) {
			return ArgoCD(f, c,
				argo(gitea, false, false))
		},
		"argocd-github": func(c *fleet.Cluster) ([]Object, error) {
			return ArgoCD(f, c,
				argo(github, false, false))
		},
		"argocd-gitlab-hub": func(c *fleet.Cluster) ([]Object, error) {
			return ArgoCD(f, c,
				argo(gitlab, true, false))
		},
		"argocd-set": func(c *fleet.Cluster) ([]Object, error) {
			return ArgoCD(f, c,
				argo(github, false, true))
		},
		"argocd-set-hub": func(c *fleet.Cluster) ([]Object, error) { return ArgoCD(f, c, argo(gitlab, true, true)) },
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := f.Cluster("eu-1")
			list, err := give(c)
			if err != nil {
				t.Fatal(err)
			}
			got, err := YAML(list)
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join("testdata", name+".yaml")
			if *update {
				if err := os.WriteFile(file, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), string(got)); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestStates(t *testing.T) {
	f := testFleet(t, nil)
	ice, _ := f.Cluster("ice")
	if list, err := Flux(f, ice, fluxOptions(t, "https://github.com/acme/fleet")); err != nil || len(list) == 0 {
		t.Errorf("a frozen cluster keeps its branch: %v", err)
	}
	old, _ := f.Cluster("old")
	for _, err := range []error{
		second(Flux(f, old, fluxOptions(t, "https://github.com/acme/fleet"))),
		second(ArgoCD(f, old, ArgoOptions{})),
	} {
		if err == nil || !strings.Contains(err.Error(), "retired") {
			t.Errorf("a retired cluster gives %v", err)
		}
	}
}

func second(_ []Object, err error) error { return err }

// dependencies returns the names in dependsOn of all objects.
func dependencies(list []Object) []string {
	var out []string
	for _, k := range list {
		if spec, ok := k["spec"].(map[string]any); ok && spec["dependsOn"] != nil {
			for _, before := range spec["dependsOn"].([]any) {
				out = append(out, before.(map[string]any)["name"].(string))
			}
		}
	}
	return out
}

// Names that the fleet allows and Kubernetes does not are changed, also in dependsOn. The folder's path keeps the
// name that it has on the branch.
func TestInvalidKubernetesNames(t *testing.T) {
	long := strings.Repeat("very-long-", 6) + "app"
	odd := []string{"a.-b", "a-.b", "flux-system", "x.y", long}
	f := testFleet(t, func(files map[string]string) {
		for _, name := range odd {
			files["apps/"+name+"/app.yaml"] = app(name, "{}", "[]")
		}
		files["apps/shop/app.yaml"] = app("shop", "{}", "["+strings.Join(odd, ", ")+"]")
	})
	c, _ := f.Cluster("eu-1")
	o := fluxOptions(t, "https://github.com/acme/fleet")
	list, err := Flux(f, c, o)
	if err != nil {
		t.Fatal(err)
	}
	legal := regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?$`)
	names, waited, paths := map[string]bool{}, 0, map[string]string{}
	for _, k := range list {
		name := k["metadata"].(map[string]any)["name"].(string)
		if !legal.MatchString(name) || !validName(name) {
			t.Errorf("the key is %s, the name is %q", k["kind"], name)
		}
		if k["kind"] == "Kustomization" {
			names[name] = true
			paths[k["spec"].(map[string]any)["path"].(string)] = name
		}
	}
	for _, name := range dependencies(list) {
		waited++
		if !names[name] {
			t.Errorf("waits for %s, which does not exist", name)
		}
	}
	if len(names) != len(odd)+2 || waited != len(odd) {
		t.Errorf("%d names, %d waited for", len(names), waited)
	}
	for _, name := range odd {
		if paths["./"+name] == "" {
			t.Errorf("no Kustomization has the folder of %s", name)
		}
	}
	if paths["./flux-system"] == "flux-system" {
		t.Error("takes the place of Flux's own Kustomization")
	}
	if paths["./x.y"] != "x.y" {
		t.Error("a good name was changed")
	}
	hub := ArgoOptions{Options: common(t, "https://github.com/acme/fleet", "argocd"), Hub: true}
	list, err = ArgoCD(f, c, hub)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range list {
		if name := a["metadata"].(map[string]any)["name"].(string); !legal.MatchString(name) || !validName(name) {
			t.Errorf("the first is %s, the name is %q", a["kind"], name)
		}
	}
}

// On a hub, two Applications never have one name, whatever dots the names of clusters and apps have.
func TestHubNamesAreUnique(t *testing.T) {
	load := func(other string) *fleet.Fleet {
		return testFleet(t, func(files map[string]string) {
			files["clusters/team.yaml"] = base +
				"kind: Cluster\nmetadata: {name: eu-1.team}\nspec: {environment: prod}\n"
			files["apps/second/app.yaml"] = app(other, "{matchLabels: {region: eu}}", "[]")
		})
	}
	give := func(f *fleet.Fleet, cluster string, hub bool) error {
		c, _ := f.Cluster(cluster)
		return second(ArgoCD(f, c, ArgoOptions{
			Options: common(t, "https://github.com/acme/fleet", "argocd"),
			Hub:     hub,
		}))
	}
	clash := load("team.shop") // eu-1 and team.shop, eu-1.team and shop
	for cluster, want := range map[string]string{
		"eu-1":      "app team.shop on cluster eu-1 and app shop on cluster eu-1.team would have one Application, eu-1.team.shop: rename",
		"eu-1.team": "app shop on cluster eu-1.team and app team.shop on cluster eu-1 would have one Application",
	} {
		if err := give(clash, cluster, true); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: the error is %v, want %s", cluster, err, want)
		}
		if err := give(clash, cluster, false); err != nil {
			t.Errorf("%s has an Argo CD of its own: %v", cluster, err)
		}
		if err := give(load("team.other"), cluster, true); err != nil {
			t.Errorf("%s: the error is %v", cluster, err)
		}
	}
}

func TestSafeNamesAreUnique(t *testing.T) {
	seen := map[string]string{}
	for _, name := range []string{
		"a.b", "a.-b", "a-.b", "a..b", "A.b", "", "-", "é", strings.Repeat("x", 64),
		strings.Repeat("x", 65),
	} {
		got := safeName(name)
		if other, ok := seen[got]; ok || !validName(got) || len(got) > maxName {
			t.Errorf("%q becomes %q, as %q", name, got, other)
		}
		seen[got] = name
	}
}

func TestRepository(t *testing.T) {
	for address, want := range map[string]struct{ url, page, forge string }{
		"https://github.com/acme/fleet.git": {
			"https://github.com/acme/fleet.git",
			"https://github.com/acme/fleet", "github",
		},
		"https://x-access-token:ghs_secret@github.com/acme/f": {
			"https://github.com/acme/f",
			"https://github.com/acme/f", "github",
		},
		"git@github.com:acme/fleet.git": {
			"ssh://git@github.com/acme/fleet.git",
			"https://github.com/acme/fleet", "github",
		},
		"github.com:acme/fleet": {
			"ssh://git@github.com/acme/fleet",
			"https://github.com/acme/fleet", "github",
		},
		"ssh://git@gitlab.example.com:2222/a/b/c.git": {
			"ssh://git@gitlab.example.com:2222/a/b/c.git",
			"https://gitlab.example.com/a/b/c", "gitlab",
		},
		"ssh://git:secret@gitlab.com/a/b": {
			"ssh://git@gitlab.com/a/b", "https://gitlab.com/a/b",
			"gitlab",
		},
		"ssh://git@ssh.github.com:443/acme/fleet.git": {
			"ssh://git@ssh.github.com:443/acme/fleet.git",
			"https://github.com/acme/fleet", "github",
		},
		"ssh://git@altssh.gitlab.com:443/a/b/c.git": {
			"ssh://git@altssh.gitlab.com:443/a/b/c.git",
			"https://gitlab.com/a/b/c", "gitlab",
		},
		"http://gitlab.internal:8080/a/b.git?x=secret#f": {
			"http://gitlab.internal:8080/a/b.git",
			"http://gitlab.internal:8080/a/b", "gitlab",
		},
		"https://git.example.com/a/b": {
			"https://git.example.com/a/b",
			"https://git.example.com/a/b", "error: --forge github, gitlab, gitea, none",
		},
		"https://github.com/acme/group/fleet": {
			"https://github.com/acme/group/fleet",
			"https://github.com/acme/group/fleet", "error: owner/name",
		},
		"/srv/git/fleet.git":             {url: "error: --url"},
		"file:///srv/git/fleet.git":      {url: "error: --url"},
		`C:\git\fleet`:                   {url: "error: --url"},
		"git://github.com/a/b":           {url: "error: --url"},
		"https://github.com":             {url: "error: --url"},
		"https://user:secret@host:bad/a": {url: "error: --url"},
	} {
		r, err := ParseRepository(address)
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: shows the password: %v", address, err)
		}
		if text, ok := strings.CutPrefix(want.url, "error: "); ok {
			if err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("%s: the error is %v, the result of ParseRepository is %+v", address, err, r)
			}
			continue
		}
		if err != nil || r.URL != want.url || r.Page() != want.page {
			t.Errorf("%s: the URL is %q, Page is %q, the error is %v", address, r.URL, r.Page(), err)
			continue
		}
		forge, err := r.ForgeOf(Guess)
		if text, ok := strings.CutPrefix(want.forge, "error: "); ok {
			if err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("%s: the forge is %s, the error is %v", address, forge, err)
			}
		} else if err != nil || string(forge) != want.forge {
			t.Errorf("%s: the forge is %s, the error is %v", address, forge, err)
		}
	}
	r, _ := ParseRepository("https://git.example.com/a/b")
	for forge, good := range map[Forge]bool{GitHub: true, GitLab: true, Gitea: true, None: true, "gerrit": false} {
		if _, err := r.ForgeOf(forge); (err == nil) != good {
			t.Errorf("%s: the error is %v", forge, err)
		}
	}
}

// Every accepted address gives a URL that Flux can clone, and no URL or error contains a password.
func FuzzParseRepository(f *testing.F) {
	for _, address := range []string{
		"git@github.com:acme/fleet.git", "https://u:hunter2hunter2@github.com/a/b?x#y",
		"ssh://git:hunter2hunter2@h:22/a", "https://hunter2hunter2@h", "a:b", "//h/a", "https://h/%2f", "ssh://h/../a",
		"https:a@b:c",
	} {
		f.Add(address)
	}
	f.Fuzz(func(t *testing.T, address string) {
		r, err := ParseRepository(address)
		secret := strings.Contains(address, "://") && strings.Contains(address, ":hunter2hunter2@")
		if secret && strings.Contains(fmt.Sprint(r, err), ":hunter2hunter2@") {
			t.Fatalf("%q shows its password: %+v %v", address, r, err)
		}
		if err != nil {
			return
		}
		u, err := url.Parse(r.URL)
		if err != nil || !slices.Contains([]string{"http", "https", "ssh"}, u.Scheme) || u.Hostname() == "" ||
			u.RawQuery != "" || u.Fragment != "" {
			t.Fatalf("%q becomes %q: %v", address, r.URL, err)
		}
		if _, password := u.User.Password(); password || u.Scheme != "ssh" && u.User != nil {
			t.Fatalf("%q keeps credentials: %q", address, r.URL)
		}
		if again, err := ParseRepository(r.URL); err != nil || again != r {
			t.Fatalf("%q becomes %+v and then %+v: %v", address, r, again, err)
		}
	})
}

func TestRefused(t *testing.T) {
	f := testFleet(t, nil)
	c, _ := f.Cluster("eu-1")
	for name, change := range map[string]func(o *FluxOptions){
		"namespace": func(o *FluxOptions) { o.Namespace = "Flux_System" },
		"name":      func(o *FluxOptions) { o.Name = "a b" },
		"secret":    func(o *FluxOptions) { o.Secret = "x\ny" },
		"no name":   func(o *FluxOptions) { o.Name = "" },
		"no token":  func(o *FluxOptions) { o.StatusSecret = "" },
		"interval":  func(o *FluxOptions) { o.Interval = 0 },
		"timeout":   func(o *FluxOptions) { o.Timeout = -time.Second },
	} {
		o := fluxOptions(t, "https://github.com/acme/fleet")
		change(&o)
		if _, err := Flux(f, c, o); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
	f = testFleet(t, func(files map[string]string) {
		files["sluice.yaml"] = strings.Replace(files["sluice.yaml"], "output: {", "output: {namespaces: asRendered, ",
			1)
	})
	c, _ = f.Cluster("eu-1")
	if _, err := ArgoCD(f, c, ArgoOptions{
		Options:        common(t, "https://github.com/a/b", "argocd"),
		ApplicationSet: true,
	}); err == nil || !strings.Contains(err.Error(), "asRendered") {
		t.Errorf("an ApplicationSet without namespaces: %v", err)
	}
	list, err := Flux(f, c, fluxOptions(t, "https://github.com/acme/fleet"))
	if err != nil {
		t.Fatal(err)
	}
	targets := 0
	for _, k := range list {
		if k["kind"] == "Kustomization" && k["spec"].(map[string]any)["targetNamespace"] != nil {
			targets++
		}
	}
	if targets != 2 {
		t.Errorf("asRendered: %d Kustomizations have a namespace", targets)
	}
}

// Annotations, sync options and projects of the fleet and of apps are in the objects.
func TestDelivery(t *testing.T) {
	f := testFleet(t, func(files map[string]string) {
		files["sluice.yaml"] += "  sync: argocd\n  delivery: {project: platform, annotations: {team: sre, cluster: \"${cluster.name}\"}, syncOptions: [PruneLast=true]}\n"
		files["apps/shop/app.yaml"] = strings.Replace(files["apps/shop/app.yaml"], "placement:",
			"delivery: {project: shops, annotations: {team: \"${app}\"}, syncOptions: [ServerSideApply=false, PruneLast=false]}, placement:", 1)
	})
	c, _ := f.Cluster("eu-1")
	list, err := ArgoCD(f, c, ArgoOptions{Options: common(t, "https://github.com/acme/fleet", "argocd")})
	if err != nil {
		t.Fatal(err)
	}
	data, err := YAML(list)
	if err != nil {
		t.Fatal(err)
	}
	documents := strings.Split(string(data), "---\n")
	for i, want := range map[int][]string{
		1: {
			"name: certs", "cluster: eu-1\n", "team: sre\n", "project: platform\n", "- ServerSideApply=true\n",
			"- PruneLast=true\n", "- CreateNamespace=true\n",
		},
		2: {
			"name: shop", "cluster: eu-1\n", "team: shop\n", "project: shops\n", "- ServerSideApply=false\n",
			"- PruneLast=false\n",
		},
	} {
		for _, text := range want {
			if !strings.Contains(documents[i], text) {
				t.Errorf("%q is missing in\n%s", text, documents[i])
			}
		}
	}
	if strings.Contains(documents[2], "ServerSideApply=true") {
		t.Errorf("an option is there twice:\n%s", documents[2])
	}
	if _, err := Flux(f, c, fluxOptions(t, "https://github.com/acme/fleet")); err == nil ||
		!strings.Contains(err.Error(), "sluice bootstrap argocd") {
		t.Errorf("Flux for an environment that Argo CD syncs: %v", err)
	}
}
