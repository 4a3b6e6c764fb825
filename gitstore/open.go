package gitstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-git/go-billy/v5/osfs"
	git "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/config"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/storage/filesystem"
	"github.com/go-git/go-git/v5/storage/filesystem/dotgit"

	"github.com/sluice-gitops/sluice/gitstore/internal/disk"
	"github.com/sluice-gitops/sluice/gitstore/internal/pack"
)

// Options select the repository to open, by Dir or URL.
type Options struct {
	Dir      string // an existing repository: a working tree, a folder in one, or a bare repository
	URL      string // a remote; objects are mirrored when they are needed
	CacheDir string // folder for mirrors; "": a temporary folder that Close removes
	Remote   string // name of Dir's remote that missing objects come from. Default: origin
	Auth     Auth   // for URL, or for Dir's remote
	// OneListing has all readers of a remote's refs share one listing, so that they see one moment and cost one
	// request. A push to any remote ends it, as Relist does. It is for a store that one task uses: the task does not
	// see what others push meanwhile. Pushes always compare with the present refs.
	OneListing bool

	disk disk.Disk // nil: the operating system's
}

// Open opens a repository. It contacts no remote yet.
func Open(ctx context.Context, o Options) (*Store, error) {
	if (o.Dir == "") == (o.URL == "") {
		return nil, errors.New("give either Dir or URL")
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if o.disk == nil {
		o.disk = disk.OS{}
	}
	if o.URL != "" {
		return openMirror(o)
	}
	return openDir(o)
}

func openDir(o Options) (*Store, error) {
	dir, worktree, err := findGitDir(o.Dir)
	if err != nil {
		return nil, err
	}
	s, err := openGitDir(dir, o.disk, false)
	if err != nil {
		return nil, fmt.Errorf("open the repository %s: %w", o.Dir, err)
	}
	s.worktree, s.auth = worktree, o.Auth
	name := o.Remote
	if name == "" {
		name = "origin"
	}
	if s.remote = s.remoteURL(name); s.remote == "" {
		if o.Remote != "" {
			return nil, kindf(ErrNotFound, "the repository has no remote %q: see `git remote`", name)
		}
		return s, nil
	}
	return s, s.addSource(s.remote, o.Auth)
}

// remoteURL returns the URL of a remote, or "" if there is none of that name.
func (s *Store) remoteURL(name string) string {
	if s.repo == nil {
		return ""
	}
	s.refs.Lock()
	c, err := s.repo.Config()
	s.refs.Unlock()
	if err != nil || c.Remotes[name] == nil || len(c.Remotes[name].URLs) == 0 {
		return ""
	}
	address := c.Remotes[name].URLs[0]
	if strings.Contains(address, ":") || filepath.IsAbs(address) {
		return address
	}
	base := s.worktree
	if base == "" {
		base = s.dir
	}
	return filepath.Join(base, address)
}

// remoteAdvice says what to do about a remote that does not exist.
func remoteAdvice(s *Store) string {
	if s.repo != nil {
		s.refs.Lock()
		c, err := s.repo.Config()
		s.refs.Unlock()
		if err == nil && len(c.Remotes) > 0 {
			return fmt.Sprintf("it has %s: name one with --remote",
				strings.Join(slices.Sorted(maps.Keys(c.Remotes)), ", "))
		}
	}
	return "add it with `git remote add`"
}

// addSource adds a remote for missing objects. If its credentials are unusable, the error appears only when the
// remote is needed.
func (s *Store) addSource(address string, auth Auth) error {
	e, err := newEndpoint(address, auth)
	if err != nil && e.ep == nil {
		return err
	}
	s.prefer(e)
	return nil
}

// prefer makes a remote the first to be asked.
func (s *Store) prefer(e endpoint) {
	s.mu.Lock()
	defer s.mu.Unlock()
	others := slices.DeleteFunc(slices.Clone(s.sources), func(known endpoint) bool { return known.url == e.url })
	s.sources = append([]endpoint{e}, others...)
}

// openGitDir opens a repository. isMirror means that all of it can be fetched again.
func openGitDir(dir string, d disk.Disk, isMirror bool) (*Store, error) {
	s := newStore()
	s.dir, s.gitDir, s.disk = dir, dir, d
	//nolint:gosec // the user's own repository
	if data, err := os.ReadFile(filepath.Join(dir, "commondir")); err == nil {
		s.dir = strings.TrimSpace(string(data))
		if !filepath.IsAbs(s.dir) {
			s.dir = filepath.Join(dir, s.dir)
		}
	}
	fsys := osfs.New(s.dir)
	if s.dir != s.gitDir {
		fsys = dotgit.NewRepositoryFilesystem(osfs.New(s.gitDir), osfs.New(s.dir))
	}
	s.repo = filesystem.NewStorage(fsys, cache.NewObjectLRU(cache.MiByte))
	c, err := s.repo.Config()
	if err != nil {
		return nil, pack.Damage(filepath.Join(s.dir, "config"), err)
	}
	if err := checkFormat(c); err != nil {
		return nil, err
	}
	s.bare = c.Core.IsBare
	if isMirror {
		s.own = pack.OpenCache(s.dir, d)
		s.side = s.own
		return s, nil
	}
	s.own = pack.OpenFolder(s.dir, d)
	for _, other := range alternates(s.dir, 0) {
		s.borrowed = append(s.borrowed, pack.OpenFolder(other, d))
	}
	if at := filepath.Join(s.dir, sideName); isFolder(filepath.Join(at, "objects")) {
		_ = pack.Tidy(at, d) // merging packs only saves time; a read-only repository keeps its packs
		s.side = pack.OpenCache(at, d)
	}
	return s, nil
}

// checkFormat refuses repositories whose objects or refs this package would misread. Other extensions, such as sparse
// and partial clones, do not matter here.
func checkFormat(c *config.Config) error {
	extensions := c.Raw.Section("extensions")
	if format := extensions.Option("objectformat"); format != "" && format != "sha1" {
		return fmt.Errorf("its objects are named by %s: only SHA-1 repositories are supported", format)
	}
	if format := extensions.Option("refstorage"); format != "" && format != "files" {
		return fmt.Errorf("its refs are stored as %s: migrate them with `git refs migrate --ref-format=files`", format)
	}
	return nil
}

func isFolder(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

// findGitDir looks for a repository in a folder and those above it.
func findGitDir(start string) (gitDir, worktree string, err error) {
	dir, err := filepath.Abs(start)
	if err != nil {
		return "", "", err
	}
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) { // a folder above it may be in some other repository
		return "", "", kindf(ErrNotFound, "the folder %s does not exist", dir)
	}
	for at := dir; ; at = filepath.Dir(at) {
		dotGit := filepath.Join(at, ".git")
		if info, err := os.Stat(dotGit); err == nil {
			if info.IsDir() {
				return dotGit, at, nil
			}
			linked, err := readGitFile(dotGit)
			return linked, at, err
		}
		if isGitDir(at) {
			return at, "", nil
		}
		if at == filepath.Dir(at) {
			return "", "", kindf(ErrNotFound,
				"the folder %s is not in a Git repository (name one with --repo, or create one with `git init`)", dir)
		}
	}
}

func isGitDir(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "HEAD"))
	return err == nil && isFolder(filepath.Join(dir, "objects")) && isFolder(filepath.Join(dir, "refs"))
}

func readGitFile(name string) (string, error) {
	data, err := os.ReadFile(name) //nolint:gosec // the user's own repository
	if err != nil {
		return "", err
	}
	target, ok := strings.CutPrefix(strings.TrimSpace(string(data)), "gitdir: ")
	if !ok {
		return "", fmt.Errorf("%s does not name a Git folder", name)
	}
	if !filepath.IsAbs(target) {
		target = filepath.Join(filepath.Dir(name), target)
	}
	return target, nil
}

// openMirror opens or creates a bare repository as the mirror of a remote.
func openMirror(o Options) (*Store, error) {
	e, err := newEndpoint(o.URL, o.Auth)
	if err != nil {
		return nil, err
	}
	dir, temp := "", []string(nil)
	if o.CacheDir == "" {
		if dir, err = os.MkdirTemp("", "sluice-mirror-"); err != nil {
			return nil, err
		}
		temp = []string{dir}
	} else {
		dir = filepath.Join(o.CacheDir, pack.Sum("blob", []byte(e.url)).String())
	}
	s, err := openOrInit(dir, o.disk)
	if err != nil {
		return nil, fmt.Errorf("mirror of %s in %s: %w", e.url, dir, err)
	}
	s.remote, s.auth, s.temp = o.URL, o.Auth, temp
	s.sources = []endpoint{e}
	if o.OneListing {
		s.listed = newListings()
	}
	return s, nil
}

// OpenCache opens or creates a bare repository for objects that can be had again, in a folder that may be deleted at any
// time while it is closed. Without a folder it is a temporary one, which Close removes.
func OpenCache(dir string) (*Store, error) {
	var temp []string
	if dir == "" {
		var err error
		if dir, err = os.MkdirTemp("", "sluice-cache-"); err != nil {
			return nil, err
		}
		temp = []string{dir}
	}
	s, err := openOrInit(dir, disk.OS{})
	if err != nil {
		return nil, fmt.Errorf("the cache %s: %w", dir, err)
	}
	s.temp = temp
	return s, nil
}

// openOrInit opens a mirror. If it does not exist, or is not a valid repository, it creates a new one; lost objects
// are fetched again.
func openOrInit(dir string, d disk.Disk) (*Store, error) {
	if isGitDir(dir) {
		_ = pack.Tidy(dir, d) // only saves time
		s, err := openGitDir(dir, d, true)
		if !errors.Is(err, ErrDamaged) {
			return s, err
		}
	}
	if err := initMirror(dir, d); err != nil {
		return nil, err
	}
	return openGitDir(dir, d, true)
}

// initMirror creates an empty bare repository under a temporary name and renames it, so that another process sees all
// of it or nothing. If another process created the mirror meanwhile, it keeps that one.
func initMirror(dir string, d disk.Disk) error {
	if err := d.MkdirAll(filepath.Dir(dir)); err != nil {
		return err
	}
	if err := pack.RemoveAbandoned(filepath.Dir(dir), d); err != nil {
		return err
	}
	temp, err := os.MkdirTemp(filepath.Dir(dir), disk.TempMirror)
	if err != nil {
		return err
	}
	if _, err := git.Init(filesystem.NewStorage(osfs.New(temp), cache.NewObjectLRU(cache.MiByte)), nil); err != nil {
		return errors.Join(err, d.RemoveAll(temp))
	}
	err = d.Rename(temp, dir)
	if err == nil {
		return nil
	}
	if s, openErr := openGitDir(dir, d, true); openErr == nil && isGitDir(dir) {
		return errors.Join(s.Close(), d.RemoveAll(temp))
	}
	return errors.Join(d.RemoveAll(dir), d.Rename(temp, dir)) // remove the remains of a damaged mirror first
}

// alternates lists the folders that a repository borrows objects from, as `git clone --shared` and --reference set
// up.
func alternates(dir string, depth int) []string {
	const deepest = 5 // as Git
	//nolint:gosec // the user's own repository
	data, err := os.ReadFile(filepath.Join(dir, "objects", "info", "alternates"))
	if err != nil || depth > deepest {
		return nil
	}
	var out []string
	for line := range strings.SplitSeq(string(data), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") || filepath.Base(line) != "objects" {
			continue
		}
		if !filepath.IsAbs(line) {
			line = filepath.Join(dir, "objects", line)
		}
		out = append(out, filepath.Dir(line))
		out = append(out, alternates(filepath.Dir(line), depth+1)...)
	}
	return out
}
