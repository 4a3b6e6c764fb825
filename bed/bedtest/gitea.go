package bedtest

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
)

// plainStyle is a style sheet for the pages of a Gitea without its own.
//
//go:embed plain.css
var plainStyle string

// GiteaAdmin is the site administrator of a Gitea, Password the password of every user.
const (
	GiteaAdmin = "root"
	Password   = "sluice-bed-1" //nolint:gosec // of servers for tests
)

// GiteaTemplate is a folder with a new Gitea that has only the administrator. Starting copies of it is faster than
// creating a database for each.
type GiteaTemplate struct {
	dir   string
	token string
}

// Gitea is a running server.
type Gitea struct {
	URL   string // http://127.0.0.1:port
	Dir   string
	token string
	bin   string // folder of the built server
	*process
}

// NewGiteaTemplate creates a database in an empty folder.
func NewGiteaTemplate(ctx context.Context, dir string) (*GiteaTemplate, error) {
	if err := writeGiteaConfig(dir, 1, ""); err != nil {
		return nil, err
	}
	if _, err := runGitea(ctx, dir, "migrate"); err != nil {
		return nil, err
	}
	out, err := runGitea(ctx, dir, "admin", "user", "create", "--admin", "--username", GiteaAdmin, "--password", Password,
		"--email", GiteaAdmin+"@example.com", "--must-change-password=false", "--access-token",
		"--access-token-name", "bed", "--access-token-scopes", "all")
	if err != nil {
		return nil, err
	}
	for word := range strings.FieldsSeq(out) {
		if len(word) == 40 && strings.Trim(word, "0123456789abcdef") == "" {
			return &GiteaTemplate{dir: dir, token: word}, nil
		}
	}
	return nil, fmt.Errorf("gitea printed no token of the new administrator: %.500q", out)
}

// Start starts a copy of the template in an empty folder and waits until it answers. settings are further lines of
// app.ini.
func (t *GiteaTemplate) Start(ctx context.Context, dir, settings string) (*Gitea, error) {
	if err := os.CopyFS(dir, os.DirFS(t.dir)); err != nil {
		return nil, fmt.Errorf("copy a new gitea: %w", err)
	}
	port, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	if err := writeGiteaConfig(dir, port, settings); err != nil {
		return nil, err
	}
	bin, err := part("gitea")
	if err != nil {
		return nil, err
	}
	g := &Gitea{URL: fmt.Sprintf("http://127.0.0.1:%d", port), Dir: dir, token: t.token, bin: bin}
	return g, g.Resume(ctx)
}

// Resume starts the server again after Close, with the same address and data, and waits until it answers.
func (g *Gitea) Resume(ctx context.Context) (err error) {
	if g.process, err = start("gitea", g.Dir, giteaCommand(context.WithoutCancel(ctx), g.bin, g.Dir, "web")); err != nil {
		return err
	}
	if err := g.ready(ctx, func() error { return g.As("").Do(ctx, http.MethodGet, "/version", nil, nil) }); err != nil {
		g.Close()
		return err
	}
	return nil
}

// GiteaClient calls the API of a Gitea as one user.
type GiteaClient struct {
	g     *Gitea
	login string
	basic bool
}

// As returns a client for a user; "" is the administrator.
func (g *Gitea) As(login string) GiteaClient { return GiteaClient{g: g, login: login} }

// GiteaError is an answer of Gitea that is no success.
type GiteaError struct {
	Code int
	Said string
}

// Error implements error.
func (e *GiteaError) Error() string { return fmt.Sprintf("%d %s", e.Code, e.Said) }

// Do sends a request to the API and decodes the answer into out, which may be nil. path begins with a slash, after
// /api/v1.
func (c GiteaClient) Do(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		data, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(data)
	}
	r, err := http.NewRequestWithContext(ctx, method, c.g.URL+"/api/v1"+path, body)
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	if c.basic {
		r.SetBasicAuth(c.login, Password)
	} else {
		r.Header.Set("Authorization", "token "+c.g.token)
		if c.login != "" {
			r.Header.Set("Sudo", c.login)
		}
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	data, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return err
	}
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("%s %s as %q: %w", method, path, c.login,
			&GiteaError{Code: resp.StatusCode, Said: strings.TrimSpace(string(data))})
	}
	if out == nil || len(data) == 0 {
		return nil
	}
	return json.Unmarshal(data, out)
}

// AddUser creates a user with Password and returns its id.
func (g *Gitea) AddUser(ctx context.Context, login string) (int64, error) {
	var made struct {
		ID int64 `json:"id"`
	}
	err := g.As("").Do(ctx, http.MethodPost, "/admin/users", map[string]any{
		"username": login, "email": login + "@example.com", "password": Password, "must_change_password": false,
	}, &made)
	return made.ID, err
}

// Token creates an access token of a user for everything that the user may do, but for the scopes of administrators.
func (g *Gitea) Token(ctx context.Context, login string) (string, error) {
	var made struct {
		Token string `json:"sha1"`
	}
	err := GiteaClient{g: g, login: login, basic: true}.Do(ctx, http.MethodPost, "/users/"+login+"/tokens", map[string]any{
		"name": "sluice", "scopes": []string{"write:repository", "write:issue", "read:organization", "read:user"},
	}, &made)
	return made.Token, err
}

// writeGiteaConfig writes app.ini.
func writeGiteaConfig(dir string, port int, settings string) error {
	bin, err := part("gitea")
	if err != nil {
		return err
	}
	me, err := user.Current()
	if err != nil {
		return fmt.Errorf("name of the user: %w", err)
	}
	custom := filepath.Join(dir, "custom", "templates", "custom")
	if err := os.MkdirAll(custom, 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(custom, "header.tmpl"), []byte("<style>"+plainStyle+"</style>\n"), 0o600); err != nil {
		return err
	}
	const secret = "of-a-server-for-tests-only-of-a-server-for-tests-only"
	text := fmt.Sprintf(`APP_NAME = Gitea of the bed
RUN_MODE = prod
RUN_USER = %[1]s
WORK_PATH = %[2]s
I_AM_BEING_UNSAFE_RUNNING_AS_ROOT = %[6]t
[server]
HTTP_ADDR = 127.0.0.1
HTTP_PORT = %[3]d
ROOT_URL = http://127.0.0.1:%[3]d/
STATIC_ROOT_PATH = %[4]s
DISABLE_SSH = true
OFFLINE_MODE = true
LFS_START_SERVER = false
[database]
DB_TYPE = sqlite3
PATH = %[2]s/gitea.db
SQLITE_JOURNAL_MODE = WAL
[repository]
ROOT = %[2]s/repositories
DEFAULT_BRANCH = main
[security]
INSTALL_LOCK = true
SECRET_KEY = %[5]s
INTERNAL_TOKEN = %[5]s
PASSWORD_HASH_ALGO = pbkdf2$1$50
PASSWORD_CHECK_PWN = false
[oauth2]
ENABLED = false
JWT_SECRET = c2x1aWNlLWJlZC1zbHVpY2UtYmVkLXNsdWljZS1iZWQ
[service]
DISABLE_REGISTRATION = true
DEFAULT_KEEP_EMAIL_PRIVATE = false
[webhook]
ALLOWED_HOST_LIST = loopback
[indexer]
ISSUE_INDEXER_TYPE = db
[queue]
TYPE = channel
[actions]
ENABLED = false
[packages]
ENABLED = false
[picture]
DISABLE_GRAVATAR = true
[cron.update_checker]
ENABLED = false
[log]
MODE = console
LEVEL = Warn
%[7]s`, me.Username, dir, port, filepath.Join(bin, "static"), secret, me.Uid == "0", settings)
	return os.WriteFile(filepath.Join(dir, "app.ini"), []byte(text), 0o600)
}

func giteaCommand(ctx context.Context, bin, dir string, args ...string) *exec.Cmd {
	args = append([]string{"--config", filepath.Join(dir, "app.ini"), "--work-path", dir}, args...)
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "gitea"), args...) //nolint:gosec // of the bed
	cmd.Dir = dir
	// Gitea sets global options of Git. Where that is /dev/null, as tests set it, Git would put a file in its place.
	cmd.Env = append(os.Environ(), "HOME="+dir, "GIT_CONFIG_NOSYSTEM=1", "GITEA_WORK_DIR="+dir,
		"GIT_CONFIG_GLOBAL="+filepath.Join(dir, "gitconfig"))
	return cmd
}

// runGitea runs a command of Gitea that ends, and returns what it prints.
func runGitea(ctx context.Context, dir string, args ...string) (string, error) {
	bin, err := part("gitea")
	if err != nil {
		return "", err
	}
	out, err := giteaCommand(ctx, bin, dir, args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("gitea %s: %w\n%s", args[0], err, out)
	}
	return string(out), nil
}
