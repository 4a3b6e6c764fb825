// Package app wires Sluice together. Only this package names concrete forges, and only it turns environment variables
// into options and credentials. It decides nothing: package session opens repositories, and package service runs.
//
// The tests of the package are the stories of the service: each starts one beside a Git server and the fake of a forge.
package app

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/ocigit"
	"github.com/sluice-gitops/sluice/hydrate/session"
	"github.com/sluice-gitops/sluice/internal/idtoken"
	"github.com/sluice-gitops/sluice/internal/plainhttp"
	"github.com/sluice-gitops/sluice/renderer/fetch"
	"github.com/sluice-gitops/sluice/service"
	"github.com/sluice-gitops/sluice/service/announce"
	"github.com/sluice-gitops/sluice/service/config"
	"github.com/sluice-gitops/sluice/service/notify"
)

// ChildCommand is the hidden verb that a render process runs.
const ChildCommand = "render-child"

// The types of package session that verbs use.
type (
	// Session is session.Session.
	Session = session.Session
	// Options is session.Options.
	Options = session.Options
)

// Environment holds the environment of the process: variables, folders, and the path of the binary. Its methods are
// safe for concurrent use if Getenv is.
type Environment struct {
	Getenv     func(string) string
	Home       string // the user's home folder
	Executable string // this binary, for render processes
	// the change comes from a contributor without write access, so charts are fetched without credentials
	Untrusted bool
	Leases    ocigit.Timing // of branches in a registry, for tests; all writers of a repository need the same
}

// Open opens a repository with the credentials of the environment. Close releases it.
func Open(ctx context.Context, env Environment, o Options, progress hydrate.Progress) (*Session, error) {
	r, err := env.runtime()
	if err != nil {
		return nil, err
	}
	if o.Mirror == "" {
		o.Mirror = env.Getenv("SLUICE_MIRROR_DIR")
	}
	return session.Open(ctx, r, o, progress)
}

// OpenFolder opens a folder that need not be a repository.
func OpenFolder(ctx context.Context, env Environment, o Options, progress hydrate.Progress) (*Session, error) {
	r, err := env.runtime()
	if err != nil {
		return nil, err
	}
	return session.OpenFolder(ctx, r, o, progress)
}

// runtime reads the environment variables of Git, of charts and of renderings.
func (e Environment) runtime() (session.Runtime, error) {
	git, err := e.auth("SLUICE_GIT_")
	if err != nil {
		return session.Runtime{}, err
	}
	const output = "SLUICE_OUTPUT_GIT_"
	auth, err := e.auth(output)
	if err != nil {
		return session.Runtime{}, err
	}
	r := session.Runtime{
		ArtifactKey: e.artifactKey(),
		Identity:    e.identity(),
		Git:         git, Output: session.OutputCredential{Auth: auth, Host: e.Getenv(output + "HOST"), Prefix: output},
		Hosts:  e.hostAuth,
		Charts: fetch.NewCredentials(e.Getenv, fetch.DefaultCredentialFiles(e.Getenv, e.Home)),
		Cache:  e.CacheDir(), Child: []string{e.Executable, ChildCommand}, Version: Version(), Build: e.build(),
		Fingerprint: []byte(e.Getenv("SLUICE_FINGERPRINT_KEY")), Offline: e.Getenv("SLUICE_OFFLINE") != "",
		Clock: time.Now, KnownImages: fetch.NewKnownImages(), Leases: e.Leases,
	}
	if e.Untrusted {
		r = r.WithoutCredentials()
	}
	return r, nil
}

// artifactKey reads the private key that signs artifacts: a file, or the variable itself. Most commands need none, so that an
// error is a part of it.
func (e Environment) artifactKey() session.ArtifactKey {
	const name = "SLUICE_COSIGN_KEY"
	out := session.ArtifactKey{
		Name: name + "_FILE", PEM: []byte(e.Getenv(name)), Password: []byte(e.Getenv("SLUICE_COSIGN_PASSWORD")),
	}
	if len(out.PEM) > 0 {
		out.Name = name
	}
	if strings.Contains(string(out.PEM), "://") && !bytes.HasPrefix(out.PEM, []byte("-----BEGIN")) {
		out.KMS, out.PEM = string(out.PEM), nil
	}
	file := e.Getenv(name + "_FILE")
	switch {
	case file == "":
	case len(out.PEM)+len(out.KMS) > 0:
		out.PEM, out.KMS, out.Err = nil, "", fmt.Errorf("both %[1]s and %[1]s_FILE are set: unset one of the two", name)
	default:
		var err error
		if out.PEM, err = os.ReadFile(file); err != nil { //nolint:gosec // the user names it
			out.Err = fmt.Errorf("%s_FILE: %w", name, err)
		}
	}
	return out
}

// build identifies the program: two builds of one version may differ. It is "" if the file of the program cannot be
// found.
func (e Environment) build() string {
	info, err := os.Stat(e.Executable)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%s %d %d", Version(), info.Size(), info.ModTime().UnixNano())
}

// identity reads how artifacts are signed without a key. Most commands sign none, so that an error is a part of it.
func (e Environment) identity() session.Identity {
	const name = "SLUICE_SIGSTORE_SIGNING_CONFIG_FILE"
	out := session.Identity{Token: idtoken.Source(e.Getenv)}
	if file := e.Getenv(name); file != "" {
		var err error
		if out.Services, err = os.ReadFile(file); err != nil { //nolint:gosec // the user names it
			out.Err = fmt.Errorf("%s: %w", name, err)
		}
	}
	return out
}

// CacheDir returns the folder for downloads and other data that can be computed again.
func (e Environment) CacheDir() string {
	base := cmp.Or(e.Getenv("XDG_CACHE_HOME"), filepath.Join(e.Home, ".cache"))
	return cmp.Or(e.Getenv("SLUICE_CACHE_DIR"), filepath.Join(base, "sluice"))
}

// auth reads the credential for Git from the variables USERNAME, PASSWORD and TOKEN with a prefix. SSH keys, known
// hosts and certificates are the same for each prefix.
func (e Environment) auth(prefix string) (gitstore.Auth, error) {
	a := gitstore.Auth{
		User: e.Getenv(prefix + "USERNAME"), Password: e.Getenv(prefix + "PASSWORD"), Token: e.Getenv(prefix + "TOKEN"),
		SSHKeyFile: e.Getenv("SLUICE_SSH_KEY"), SSHKeyPassphrase: e.Getenv("SLUICE_SSH_PASSPHRASE"),
		SSHAgent: e.Getenv("SSH_AUTH_SOCK"), PlainHTTP: e.plainHTTP(),
	}
	if file := e.Getenv("SLUICE_CA_FILE"); file != "" {
		bundle, err := os.ReadFile(file) //nolint:gosec // the user names it
		if err != nil {
			return a, fmt.Errorf("SLUICE_CA_FILE: %w", err)
		}
		a.CABundle = bundle
	}
	if known := e.Getenv("SSH_KNOWN_HOSTS"); known != "" {
		a.KnownHostsFiles = filepath.SplitList(known)
	} else if file := filepath.Join(e.Home, ".ssh", "known_hosts"); exists(file) {
		a.KnownHostsFiles = []string{file}
	}
	return a, nil
}

// plainHTTP returns the hosts that may get credentials over unencrypted HTTP.
func (e Environment) plainHTTP() []string {
	return strings.FieldsFunc(e.Getenv(plainhttp.Variable), func(r rune) bool { return r == ',' || r == ' ' })
}

// hostAuth reads the credential for the Git repositories of a host: SLUICE_GIT_<HOST>_TOKEN, or _USERNAME and
// _PASSWORD. HOST is written as for chart repositories.
func (e Environment) hostAuth(host string) (gitstore.Auth, bool) {
	name, ok := strings.CutPrefix(fetch.EnvName(host), "SLUICE_REPO_")
	if !ok {
		return gitstore.Auth{}, false
	}
	a, err := e.auth("SLUICE_GIT_" + name + "_")
	if err != nil || a.Token == "" && a.Password == "" {
		return gitstore.Auth{}, false // Open reports a CA file that cannot be read
	}
	return a, true
}

// SameHost reports whether two URLs have the same host.
func SameHost(a, b string) bool { return session.SameHost(a, b) }

// ForHost returns the environment of a session for a repository by URL: the credential of its host takes precedence
// over the general one.
func (e Environment) ForHost(address string) Environment {
	u, err := url.Parse(address)
	if err != nil {
		return e
	}
	auth, ok := e.hostAuth(u.Host)
	if !ok {
		return e
	}
	outer, out := e.Getenv, e
	out.Getenv = func(name string) string {
		switch name {
		case "SLUICE_GIT_USERNAME":
			return auth.User
		case "SLUICE_GIT_PASSWORD":
			return auth.Password
		case "SLUICE_GIT_TOKEN":
			return auth.Token
		}
		return outer(name)
	}
	return out
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// Signer reads a key that signs commits: a private key, or the public half of a key in an SSH agent.
func (e Environment) Signer(file string) (gitstore.Signer, error) {
	key, err := os.ReadFile(file) //nolint:gosec // the user names it
	if err != nil {
		return nil, fmt.Errorf("signing key: %w", err)
	}
	if strings.HasSuffix(file, ".pub") {
		return gitstore.NewAgentSigner(e.Getenv("SSH_AUTH_SOCK"), key)
	}
	return gitstore.NewSigner(key, e.Getenv("SLUICE_SIGNING_PASSPHRASE"))
}

// Announce reads receivers from a file and returns a function that notifies them of each push before the push is
// reported. Failures go to warn.
func (e Environment) Announce(file string, warn func(error)) (announce.Func, error) {
	data, err := os.ReadFile(file) //nolint:gosec // the user names it
	if err != nil {
		return nil, fmt.Errorf("receivers: %w", err)
	}
	list, err := config.ParseReceivers(file, data, config.Sources{Getenv: e.Getenv, Read: os.ReadFile})
	if err != nil {
		return nil, err
	}
	n := service.NewNotifier(list, Version(), nil)
	n.PlainHTTP = e.plainHTTP()
	return func(ctx context.Context, repository string, moves []notify.Move) {
		if err := n.Notify(ctx, repository, moves); err != nil {
			warn(err)
		}
	}, nil
}

// ServiceOptions configure a service.
type ServiceOptions struct {
	Env       Environment
	Load      func() (*config.Config, error) // reads the configuration; Reload calls it again
	Log       *slog.Logger
	Transport http.RoundTripper // to forges; nil: the default of each adapter
	Clock     func() time.Time  // nil: the system's clock
	Retry     time.Duration     // wait after the first failure of a hint; 0: the queue's default
}

// NewService opens the queue and connects all parts of a service.
func NewService(ctx context.Context, o ServiceOptions) (*service.Service, error) {
	options, err := o.service()
	if err != nil {
		return nil, err
	}
	return service.New(ctx, options)
}

// CheckService checks the configuration and the secrets of a service without starting it.
func CheckService(o ServiceOptions) (*config.Config, error) {
	options, err := o.service()
	if err != nil {
		return nil, err
	}
	return service.Check(options)
}

func (o ServiceOptions) service() (service.Options, error) {
	r, err := o.Env.runtime()
	if err != nil {
		return service.Options{}, err
	}
	if o.Clock != nil {
		r.Clock = o.Clock
	}
	return service.Options{
		Load: o.Load, Connect: connect, Signer: o.Env.Signer, Runtime: r, Log: o.Log,
		Transport: o.Transport, Retry: o.Retry,
	}, nil
}

// Version is the version that the binary was built from.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}
