// The page that an unpaired browser wanted to see: pairing leads there.
localStorage.setItem("remit-wanted", JSON.stringify({ address: location.pathname + location.search, at: Date.now() }));
