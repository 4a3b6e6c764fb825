package fetch

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io/fs"
	"net/http"
	"os"

	"sigs.k8s.io/yaml"
)

const maxConfig = 4 << 20

// repoEntry is an entry of Helm's repositories.yaml.
type repoEntry struct {
	URL                   string `json:"url"`
	Username              string `json:"username"`
	Password              string `json:"password"`
	CertFile              string `json:"certFile"`
	KeyFile               string `json:"keyFile"`
	CAFile                string `json:"caFile"`
	InsecureSkipTLSVerify bool   `json:"insecure_skip_tls_verify"`
	PassCredentialsAll    bool   `json:"pass_credentials_all"`
}

// loadRepositories reads the file as Helm does, unknown keys allowed. It does not return the decoder's own
// message, which can quote a password.
func loadRepositories(name string) ([]repoEntry, error) {
	if name == "" {
		return nil, nil
	}
	info, err := os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxConfig {
		return nil, fail(ErrInvalid,
			"%s cannot be read as Helm's repositories.yaml: check HELM_REPOSITORY_CONFIG and the file", name)
	}
	data, err := os.ReadFile(name) //nolint:gosec // the user's own configuration
	if err != nil {
		return nil, fail(ErrInvalid, "%s cannot be read: check its permissions", name)
	}
	var file struct {
		Repositories []repoEntry `json:"repositories"`
	}
	if yaml.Unmarshal(data, &file) != nil {
		return nil, fail(ErrInvalid, "%s is not a valid repositories.yaml: check it by `helm repo list`", name)
	}
	return file.Repositories, nil
}

// tlsTransport returns the transport for an entry with TLS settings, once; nil if it has none.
func (c *Credentials) tlsTransport(e repoEntry, base http.RoundTripper) (http.RoundTripper, error) {
	if e.CAFile == "" && e.CertFile == "" && e.KeyFile == "" && !e.InsecureSkipTLSVerify {
		return nil, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := c.transports[e]; t != nil {
		return t, nil
	}
	own, ok := base.(*http.Transport)
	if !ok {
		own = newTransport()
	}
	own = own.Clone()
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	if own.TLSClientConfig != nil {
		conf = own.TLSClientConfig.Clone()
	}
	conf.InsecureSkipVerify = e.InsecureSkipTLSVerify // asked for by the user, for this repository alone
	if e.CAFile != "" {
		pem, err := os.ReadFile(e.CAFile)
		conf.RootCAs = x509.NewCertPool()
		if err != nil || !conf.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fail(ErrInvalid,
				"the caFile %s of Helm's repositories.yaml cannot be read, or holds no certificate in PEM form",
				e.CAFile)
		}
	}
	if e.CertFile != "" || e.KeyFile != "" {
		pair, err := tls.LoadX509KeyPair(e.CertFile, e.KeyFile)
		if err != nil {
			return nil, fail(ErrInvalid,
				"the certFile %q and keyFile %q of Helm's repositories.yaml are not a readable pair in PEM form",
				e.CertFile, e.KeyFile)
		}
		conf.Certificates = []tls.Certificate{pair}
	}
	own.TLSClientConfig = conf
	c.transports[e] = own
	return own, nil
}
