package fetch

import (
	"context"
	"net/http"
	"net/url"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"

	"github.com/sluice-gitops/sluice/internal/safetext"
)

// CredentialFiles names the files that hold credentials. A name that is empty, or of a file that is not there, gives
// none.
type CredentialFiles struct {
	Repositories string // Helm's repositories.yaml: credentials and TLS settings of chart repositories
	Registry     string // Helm's registry/config.json: credentials of OCI registries
	Docker       string // Docker's config.json: the same, asked last
}

// DefaultCredentialFiles is where Helm and Docker look by themselves, given the environment and the home directory.
func DefaultCredentialFiles(getenv func(string) string, home string) CredentialFiles {
	helm := getenv("HELM_CONFIG_HOME")
	if xdg := getenv("XDG_CONFIG_HOME"); helm == "" && xdg != "" {
		helm = filepath.Join(xdg, "helm")
	}
	if helm == "" {
		switch runtime.GOOS {
		case "windows":
			helm = filepath.Join(getenv("APPDATA"), "helm")
		case "darwin":
			helm = filepath.Join(home, "Library", "Preferences", "helm")
		default:
			helm = filepath.Join(home, ".config", "helm")
		}
	}
	first := func(name, otherwise string) string {
		if v := getenv(name); v != "" {
			return v
		}
		return otherwise
	}
	return CredentialFiles{
		Repositories: first("HELM_REPOSITORY_CONFIG", filepath.Join(helm, "repositories.yaml")),
		Registry:     first("HELM_REGISTRY_CONFIG", filepath.Join(helm, "registry", "config.json")),
		Docker:       filepath.Join(first("DOCKER_CONFIG", filepath.Join(home, ".docker")), "config.json"),
	}
}

// Credentials finds the credential for a repository or registry. The environment comes first (see EnvName), then
// Helm's files, then Docker's; of Docker's file, credential helpers are honoured, which start processes. Files are
// read when they are first needed. A nil *Credentials has none.
type Credentials struct {
	getenv       func(string) string
	files        CredentialFiles
	repositories func() ([]repoEntry, error)
	stores       func() ([]credentials.Store, error)
	mu           sync.Mutex
	transports   map[repoEntry]http.RoundTripper
}

// NewCredentials takes os.Getenv (nil: no environment) and the files; see DefaultCredentialFiles.
func NewCredentials(getenv func(string) string, files CredentialFiles) *Credentials {
	if getenv == nil {
		getenv = func(string) string { return "" }
	}
	c := &Credentials{getenv: getenv, files: files, transports: map[repoEntry]http.RoundTripper{}}
	c.repositories = sync.OnceValues(func() ([]repoEntry, error) { return loadRepositories(files.Repositories) })
	c.stores = sync.OnceValues(c.openStores)
	return c
}

// EnvName is the start of the names of the environment variables for a host: `SLUICE_REPO_CHARTS_EXAMPLE_COM`, to
// which `_USERNAME` and `_PASSWORD`, or `_TOKEN`, are added. Letters are put in upper case; `.` and the `:` before a
// port become `_`, and `-` becomes `__`. If `-` became `_` too, the owner of charts-example.com could receive the
// credential of charts.example.com. EnvName returns "" if the host cannot be written this way.
func EnvName(host string) string {
	for label := range strings.SplitSeq(host, ".") {
		if label == "" || label[0] == '-' || label[len(label)-1] == '-' {
			return ""
		}
	}
	ok := true
	name := strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z':
			return c - 'a' + 'A'
		case c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-':
			return c
		case c == '.', c == ':':
			return '_'
		}
		ok = false
		return c
	}, host)
	if !ok {
		return ""
	}
	return "SLUICE_REPO_" + strings.ReplaceAll(name, "-", "__")
}

func envHint(host string) string {
	if name := EnvName(host); name != "" && len(host) < 100 {
		return "the environment variables " + name + "_USERNAME and _PASSWORD"
	}
	return "environment variables"
}

// secret is a credential.
type secret struct{ username, password, token string }

// fromEnv looks the host up as it stands in the URL, with its port if it has one there.
func (c *Credentials) fromEnv(host string) (secret, error) {
	name := EnvName(host)
	if name == "" {
		return secret{}, nil
	}
	s := secret{c.getenv(name + "_USERNAME"), c.getenv(name + "_PASSWORD"), c.getenv(name + "_TOKEN")}
	switch {
	case s.token != "" && (s.username != "" || s.password != ""):
		return secret{}, fail(ErrInvalid,
			"both %[1]s_TOKEN and %[1]s_USERNAME or _PASSWORD are set: unset one of the two", name)
	case (s.username == "") != (s.password == ""):
		return secret{}, fail(ErrInvalid, "%[1]s_USERNAME and %[1]s_PASSWORD belong together, but one of them is empty",
			name)
	}
	return s, nil
}

// access is how to talk to one chart repository.
type access struct {
	origin    string // of the repository's URL; what follows is only for this origin
	secret    secret
	passAll   bool
	transport http.RoundTripper // nil: the Fetcher's own
}

func (c *Credentials) forRepo(repo *url.URL, base http.RoundTripper) (access, error) {
	a := access{origin: origin(repo)}
	if c == nil {
		return a, nil
	}
	var err error
	if a.secret, err = c.fromEnv(repo.Host); err != nil {
		return a, err
	}
	entries, err := c.repositories()
	if err != nil {
		return a, err
	}
	for _, e := range entries {
		u, err := url.Parse(e.URL)
		if err != nil || origin(u) != a.origin || strings.TrimRight(u.Path, "/") != strings.TrimRight(repo.Path, "/") {
			continue
		}
		if a.secret == (secret{}) {
			a.secret = secret{username: e.Username, password: e.Password}
		}
		a.passAll = e.PassCredentialsAll
		a.transport, err = c.tlsTransport(e, base)
		return a, err
	}
	return a, nil
}

// forRegistry is an auth.CredentialFunc. Its errors hold none of the libraries' texts, which can quote a decoded
// credential.
func (c *Credentials) forRegistry(ctx context.Context, host string) (auth.Credential, error) {
	if c == nil {
		return auth.EmptyCredential, nil
	}
	names := []string{host}
	if host == "registry-1.docker.io" {
		names = append(names, "docker.io")
	}
	for _, name := range names {
		s, err := c.fromEnv(name)
		if err != nil {
			return auth.EmptyCredential, err
		}
		if s != (secret{}) {
			return auth.Credential{Username: s.username, Password: s.password, AccessToken: s.token}, nil
		}
	}
	stores, err := c.stores()
	if err != nil {
		return auth.EmptyCredential, err
	}
	for _, store := range stores {
		cred, err := credentials.Credential(store)(ctx, host)
		if err != nil && ctx.Err() != nil {
			return auth.EmptyCredential, ctx.Err()
		}
		if err != nil {
			return auth.EmptyCredential, fail(ErrInvalid,
				"the credential for %s cannot be read from Helm's or Docker's configuration: log in again by `helm registry login` or `docker login`, or check its credential helper",
				safetext.Brief(host, 100))
		}
		if cred != auth.EmptyCredential {
			return cred, nil
		}
	}
	return auth.EmptyCredential, nil
}

func (c *Credentials) openStores() ([]credentials.Store, error) {
	var stores []credentials.Store
	for _, name := range []string{c.files.Registry, c.files.Docker} {
		if name == "" {
			continue
		}
		store, err := credentials.NewStore(name, credentials.StoreOptions{})
		if err != nil {
			return nil, fail(ErrInvalid, "%s cannot be read as registry credentials: repair it, or log in again", name)
		}
		stores = append(stores, store)
	}
	return stores, nil
}
