package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// fakeAWS is the part of AWS KMS that encrypts and decrypts, without any secrecy.
type fakeAWS struct {
	mu      sync.Mutex
	targets []string
}

// ServeHTTP implements http.Handler.
func (f *fakeAWS) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	target := r.Header.Get("X-Amz-Target")
	f.mu.Lock()
	f.targets = append(f.targets, target)
	f.mu.Unlock()
	var req struct {
		KeyID                     string `json:"KeyId"`
		Plaintext, CiphertextBlob []byte
	}
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	resp := map[string]any{"KeyId": req.KeyID}
	switch target {
	case "TrentService.Encrypt":
		resp["CiphertextBlob"] = append([]byte(req.KeyID), req.Plaintext...)
	case "TrentService.Decrypt":
		resp["Plaintext"] = req.CiphertextBlob[len(req.KeyID):]
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	_ = json.NewEncoder(w).Encode(resp)
}

// A keyset is encrypted with a key of AWS, by a client that has never heard of a keyset before.
func TestKeyset_AWS(t *testing.T) {
	aws := &fakeAWS{}
	server := httptest.NewServer(aws)
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		server.Close()
	})
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL_KMS": server.URL, "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test",
		"AWS_CONFIG_FILE": filepath.Join(t.TempDir(), "none"), "AWS_SHARED_CREDENTIALS_FILE": filepath.Join(t.TempDir(), "none"),
		"AWS_EC2_METADATA_DISABLED": "true",
	} {
		t.Setenv(name, value)
	}
	path := filepath.Join(t.TempDir(), "keyset.json")
	args := []string{
		"--encryption-keyset=" + path,
		"--encryption-key-uri=aws-kms://arn:aws:kms:eu-central-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab",
	}
	for _, command := range []string{"new", "rotate", "status"} {
		if got := memoryd(t, nil, append([]string{"keyset", command}, args...)...); got.Status != 0 {
			t.Fatalf("keyset %s: got %+v", command, got)
		}
	}
	content, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(content), "encryptedKeyset") {
		t.Errorf("got %s, %v, want a keyset that is encrypted", content, err)
	}
	want := "TrentService.Encrypt TrentService.Decrypt TrentService.Encrypt TrentService.Decrypt"
	if got := strings.Join(aws.targets, " "); got != want {
		t.Errorf("got the calls %s, want %s", got, want)
	}
}

func TestKeyset_UnknownService(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keyset.json")
	for uri, want := range map[string]string{
		"azure-kms://key": "no key management service is known for it",
		"aws-kms://key":   "extracting region from URI failed",
	} {
		got := memoryd(t, nil, "keyset", "new", "--encryption-keyset="+path, "--encryption-key-uri="+uri)
		if got.Status != 1 || !strings.Contains(got.Stderr, want) {
			t.Errorf("%s: got %+v, want %q", uri, got, want)
		}
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("a keyset was made")
	}
}
