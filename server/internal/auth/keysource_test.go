package auth

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

func TestKeySource_StartsWithoutTheProvider(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &idp{}
		p.isAway()
		v := p.verifier(t)
		defer v.Close()
		synctest.Wait()
		wantJWT(t, v, "a", errJWTKey, 0)
		p.has("a")
		time.Sleep(refreshAfter + time.Second)
		wantJWT(t, v, "a", nil, 0)
		p.wantRequests(t, 2)
	})
}

// A call that comes before the keys are there waits for them.
func TestKeySource_FirstCallWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &idp{}
		p.answers(func(*http.Request) ([]byte, error) {
			time.Sleep(time.Second)
			return jwksOf(jwkOf("a", p256Key())), nil
		})
		v := p.verifier(t)
		defer v.Close()
		wantJWT(t, v, "a", nil, time.Second)
		p.wantRequests(t, 1)
	})
}

func TestKeySource_RefreshesHourly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &idp{}
		p.has("old")
		v := p.verifier(t)
		defer v.Close()
		synctest.Wait()
		p.has("new")
		time.Sleep(refreshEvery - time.Second)
		wantJWT(t, v, "old", nil, 0)
		p.wantRequests(t, 1)
		time.Sleep(2 * time.Second)
		wantJWT(t, v, "old", errJWTKey, 0) // it was withdrawn
		wantJWT(t, v, "new", nil, 0)
		p.wantRequests(t, 1)
	})
}

func TestKeySource_KeepsKeysWhileTheProviderIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &idp{}
		p.has("a")
		v := p.verifier(t)
		defer v.Close()
		synctest.Wait()
		p.isAway()
		time.Sleep(refreshEvery + 5*refreshAfter + time.Second)
		wantJWT(t, v, "a", nil, 0)
		p.wantRequests(t, 7) // at the start, after the hour, and five times more
		p.answers(func(*http.Request) ([]byte, error) { return []byte("<html>"), nil })
		time.Sleep(refreshAfter)
		wantJWT(t, v, "a", nil, 0)
		p.wantRequests(t, 1)
	})
}

func TestKeySource_UnknownKeyFetches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &idp{}
		p.has("old")
		v := p.verifier(t)
		defer v.Close()
		time.Sleep(refreshAfter)
		p.has("old", "new")
		wantJWT(t, v, "new", nil, 0)
		p.wantRequests(t, 2)
	})
}

// Whoever invents keys makes the provider be asked once a minute, and nobody else wait.
func TestKeySource_InventedKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &idp{}
		p.has("a")
		v := p.verifier(t)
		defer v.Close()
		synctest.Wait()
		p.wantRequests(t, 1)
		for i := range 600 { // in ten minutes
			time.Sleep(time.Second)
			wantJWT(t, v, invented(i), errJWTKey, 0)
			wantJWT(t, v, "a", nil, 0)
		}
		p.wantRequests(t, 10)
	})
}

// All calls with a new key wait for one fetch, but not more than so many.
func TestKeySource_WaitersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &idp{}
		p.has("a")
		v := p.verifier(t)
		defer v.Close()
		time.Sleep(refreshAfter)
		arrive := make(chan struct{})
		p.answers(func(*http.Request) ([]byte, error) {
			<-arrive
			return jwksOf(jwkOf("new", p256Key())), nil
		})
		token := sealed(jwt.SigningMethodES256, p256Key(), "new", time.Now(), nil, nil)
		results := make(chan error, maxKeyWaiters+10)
		var all sync.WaitGroup
		for range maxKeyWaiters + 10 {
			all.Go(func() {
				_, err := v.verify(t.Context(), token)
				results <- err
			})
		}
		synctest.Wait()
		if got := len(results); got != 10 {
			t.Errorf("%d calls are answered at once, want 10", got)
		}
		wantJWT(t, v, "a", nil, 0) // meanwhile
		close(arrive)
		all.Wait()
		close(results)
		good := 0
		for err := range results {
			if err == nil {
				good++
			}
		}
		if good != maxKeyWaiters {
			t.Errorf("%d calls are good, want %d", good, maxKeyWaiters)
		}
		p.wantRequests(t, 2)
		// Those that waited make room for others.
		time.Sleep(refreshAfter)
		p.has("newer")
		wantJWT(t, v, "newer", nil, 0)
	})
}

func TestKeySource_SlowProvider(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &idp{}
		p.hangs()
		v := p.verifier(t)
		defer v.Close()
		wantJWT(t, v, "a", errJWTKey, fetchTimeout)
		p.wantRequests(t, 1)
		// A call that is over waits no longer.
		time.Sleep(refreshAfter)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		_, err := v.verify(ctx, sealed(jwt.SigningMethodES256, p256Key(), "a", began, nil, nil))
		if took := time.Since(began); !errors.Is(err, errJWTKey) || took != time.Second {
			t.Errorf("got %v after %s, want %v after a second", err, took, errJWTKey)
		}
	})
}

func TestKeySource_Reload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &idp{}
		p.has("old")
		v := p.verifier(t)
		defer v.Close()
		synctest.Wait()
		p.has("new")
		if err := v.Reload(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		wantJWT(t, v, "new", nil, 0)
		p.wantRequests(t, 2)
	})
}

// What is reloaded while a fetch runs is fetched after it: the running one may have missed what is new.
func TestKeySource_ReloadDuringFetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &idp{}
		old := jwksOf(jwkOf("old", p256Key()))
		p.answers(func(*http.Request) ([]byte, error) {
			time.Sleep(time.Second)
			return old, nil
		})
		v := p.verifier(t)
		defer v.Close()
		synctest.Wait()
		p.has("new")
		_ = v.Reload()
		time.Sleep(2 * time.Second)
		wantJWT(t, v, "new", nil, 0)
		p.wantRequests(t, 2)
	})
}

func TestKeySource_CloseEndsWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &idp{}
		p.hangs()
		v := p.verifier(t)
		token := sealed(jwt.SigningMethodES256, p256Key(), "a", time.Now(), nil, nil)
		done := make(chan error)
		go func() {
			_, err := v.verify(t.Context(), token)
			done <- err
		}()
		synctest.Wait()
		v.Close()
		if err := <-done; !errors.Is(err, errJWTKey) {
			t.Errorf("got %v, want %v", err, errJWTKey)
		}
		time.Sleep(refreshAfter)
		wantJWT(t, v, "a", errJWTKey, 0) // nobody fetches any more
		p.wantRequests(t, 1)
	})
}

// The context of the start does not end the fetching.
func TestKeySource_OutlivesItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &idp{}
		p.has("a")
		ctx, cancel := context.WithCancel(t.Context())
		v, err := NewJWTVerifier(ctx, JWTOptions{
			JWKS: "https://idp/keys", Issuer: testIssuer, Audience: testAudience, HTTPClient: &http.Client{Transport: p},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer v.Close()
		cancel()
		time.Sleep(refreshEvery + time.Second)
		wantJWT(t, v, "a", nil, 0)
		p.wantRequests(t, 2)
	})
}
